"""Says how the flows of a MirrorMaker 2 process become connectors."""

from collections.abc import Iterator, Mapping

from ringfence.file_checks.finding import Finding, Kind, Report, without_secrets


def check_mirror_maker(settings: Mapping[str, str]) -> Report:
    """Return one line for each flow between clusters, with the connector that replaces it."""
    findings = tuple(_flows(settings))
    return Report("the settings of a MirrorMaker 2 process", without_secrets(findings, settings))


def _flows(settings: Mapping[str, str]) -> Iterator[Finding]:
    clusters = [name.strip() for name in settings.get("clusters", "").split(",") if name.strip()]
    pairs = [(source, target) for source in clusters for target in clusters if source != target]
    for source, target in pairs:
        flow = f"{source}->{target}"
        if settings.get(f"{flow}.enabled", "").strip().lower() != "true":
            continue
        topics = settings.get(f"{flow}.topics", "").strip() or ".*"
        text = (
            f"Ringfence runs no MirrorMaker process. On workers of cluster {target}, create a connector with "
            f"connector.class=KafkaSource, source.cluster.alias={source}, source.cluster.bootstrap.servers and "
            f"target.cluster.bootstrap.servers as here, and topics={topics}."
        )
        yield Finding(Kind.IMPOSSIBLE, flow, text)
    if not pairs:
        yield Finding(Kind.MISSING, "clusters", "it must name at least two clusters.")
