"""When a watch that brings nothing is probed, and what follows from the answer."""

from syncline.kube.watch_trust import WatchTrust


def trust() -> WatchTrust:
    made = WatchTrust(quiet=30, longest=200)
    made.listed(0)
    return made


def test_nothing_is_probed_before_the_first_list() -> None:
    assert not WatchTrust(quiet=30, longest=200).needs_probe(10_000)


def test_a_watch_that_brings_lines_is_never_probed() -> None:
    made = trust()
    for now in range(0, 3600, 29):
        assert not made.needs_probe(now)
        made.heard(now)


def test_the_time_between_two_probes_doubles_while_they_are_answered() -> None:
    made, probes = trust(), []
    for now in range(1000):
        if made.needs_probe(now):
            probes.append(now)
            made.probed(now, answered=True)
    assert probes == [30, 90, 210, 410, 610, 810]
    assert made.delivers


def test_a_line_makes_the_next_probe_come_soon_again() -> None:
    made = trust()
    for now in (30, 90, 210):
        made.probed(now, answered=True)
    made.heard(300)
    assert not made.needs_probe(329)
    assert made.needs_probe(330)


def test_a_probe_without_an_answer_counts_until_the_next_line_or_answer() -> None:
    made = trust()
    made.probed(30, answered=False)
    assert not made.delivers
    made.listed(31)
    assert not made.delivers, "a list says nothing about watches"
    made.put_off(61)
    assert not made.delivers
    made.heard(62)
    assert made.delivers
    made.probed(92, answered=False)
    made.probed(122, answered=True)
    assert made.delivers


def test_a_watch_that_does_not_deliver_is_probed_as_often_as_at_first() -> None:
    made = trust()
    made.probed(30, answered=True)
    made.probed(90, answered=False)
    assert not made.needs_probe(119)
    assert made.needs_probe(120)


def test_a_probe_that_is_refused_is_put_off() -> None:
    made = trust()
    made.put_off(30)
    assert not made.needs_probe(89)
    assert made.needs_probe(90)


def test_a_probe_in_vain_of_a_server_with_nothing_to_say_keeps_the_trust() -> None:
    made = trust()
    made.probed(30, answered=True)
    made.probed_in_vain(90)
    assert made.delivers
    assert not made.is_clear
    assert not made.needs_probe(119)
    assert made.needs_probe(120)
    made.heard(121)
    assert made.is_clear


def test_a_probe_in_vain_does_not_restore_the_trust() -> None:
    made = trust()
    made.probed(30, answered=False)
    made.probed_in_vain(60)
    assert not made.delivers
    assert not made.is_clear
