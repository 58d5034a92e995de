# One image for web, workers, Spark master and Spark workers. Build: docker build -t ringfence:local .
FROM eclipse-temurin:17.0.20_8-jre-jammy@sha256:e17d77fb030dd4b642dc078d048a5fb9efcb3676ee20305d905949105a6ccd5a AS java
FROM python:3.11.15-slim-bookworm@sha256:b18992999dbe963a45a8a4da40ac2b1975be1a776d939d098c647482bcad5cba

COPY --from=java /opt/java/openjdk /opt/java/openjdk
ENV JAVA_HOME=/opt/java/openjdk PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1

# /srv/spark: what Spark's master and workers keep; a volume that is made there is theirs.
RUN useradd --create-home --uid 10001 ringfence && install -d -o ringfence -g ringfence /srv/spark
WORKDIR /srv/ringfence
# What pip has to see of us, and no more: Spark's hundreds of megabytes are a layer that a change of our code leaves as it is.
COPY requirements.lock pyproject.toml README.md LICENSE ./
COPY platform/ringfence/__init__.py platform/ringfence/
# Every file is compared with its SHA-256, setuptools first: PySpark is built with it, and would else fetch one that is not.
# We are editable, so that our code is a layer of its own. What goes is a shell for Scala, in no class path.
RUN sed -n '/^setuptools==/,/[^\\]$/p' requirements.lock > /tmp/setuptools.lock \
    && pip install --require-hashes -r /tmp/setuptools.lock \
    && pip install --require-hashes --no-build-isolation -r requirements.lock \
    && pip install --no-index --no-deps --no-build-isolation -e . \
    && rm -r /tmp/setuptools.lock "$(python -c 'import pyspark; print(pyspark.__path__[0])')/jars/connect-repl"
COPY manage.py ./
COPY connectors connectors
COPY fencing fencing
COPY platform platform
COPY templates templates
COPY static static
COPY docs docs
# Readable whatever the builder's umask was, and compiled: the user cannot write here, so each process would compile anew.
RUN chmod -R a+rX . && python -m compileall -q connectors fencing platform

USER ringfence
# Spark's drivers start from an archive of their classes with half the CPU time. Without it they start, too.
RUN python -m ringfence.local.class_archives || echo "Spark's drivers start without an archive of their classes" >&2
EXPOSE 8083
ENTRYPOINT ["ringfence"]
CMD ["web"]
