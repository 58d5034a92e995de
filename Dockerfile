# One image for web, workers, Spark master and Spark workers. Build: docker build -t ringfence:local .
FROM eclipse-temurin:17.0.15_6-jre-jammy AS java
FROM python:3.11.13-slim-bookworm

COPY --from=java /opt/java/openjdk /opt/java/openjdk
ENV JAVA_HOME=/opt/java/openjdk PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1

# /srv/spark: what Spark's master and workers keep; a volume that is made there is theirs.
RUN useradd --create-home --uid 10001 ringfence && install -d -o ringfence -g ringfence /srv/spark
WORKDIR /srv/ringfence
COPY constraints.txt pyproject.toml README.md LICENSE manage.py ./
COPY connectors connectors
COPY fencing fencing
COPY platform platform
COPY templates templates
COPY static static
# Editable, because templates and static files are found beside the packages.
RUN pip install -c constraints.txt -e '.[postgres,schema-registry]'

USER ringfence
EXPOSE 8083
ENTRYPOINT ["ringfence"]
CMD ["web"]
