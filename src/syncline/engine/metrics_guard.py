"""Access to the metrics: for clients that may GET the nonResourceURL /metrics, as the API server says."""

from syncline.kube.client import Client
from syncline.kube.reviews import may_get_url, review_token
from syncline.telemetry import Guard, Scrapers, ScrapeVerdict, ServingCertificate

PATH = "/metrics"
CERT_DIR_FLAG = "--metrics-cert-dir"
_SERVICE = "syncline-metrics"


def metrics_guard(client: Client, namespace: str, cert_dir: str) -> Guard:
    """Return what protects the metrics; raises `BindError` where the folder has no certificate."""

    async def review(token: str) -> ScrapeVerdict:
        user = await review_token(client, token)
        if user is None:
            return ScrapeVerdict.UNAUTHENTICATED
        return ScrapeVerdict.ALLOWED if await may_get_url(client, user, PATH) else ScrapeVerdict.FORBIDDEN

    if cert_dir:
        certificate = ServingCertificate.from_folder(CERT_DIR_FLAG, cert_dir)
    else:
        service = f"{_SERVICE}.{namespace}"
        certificate = ServingCertificate.self_signed((_SERVICE, service, f"{service}.svc", "localhost"))
    return Guard(certificate, Scrapers(review).authorize)
