local chart = import 'chart.libsonnet';

function(islands) [
  chart.map(island, { depth: '%d m' % (10 * (number + 1)) })
  for number in std.range(0, std.length(islands) - 1)
  for island in [islands[number]]
]
