"""Values that stand elsewhere: found, held back where they are not allowed, and put back before anything is stored."""

from pathlib import Path

import pytest

from ringfence.connectors.api import ConfigException
from ringfence.connectors.config_providers import ConfigProviders

JAVA = "org.apache.kafka.common.config.provider."


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "db.properties").write_text("# a comment\nuser = ann\npassword=hunter22=\n")
    (folder / "token").write_text("s3cret-token")
    (tmp_path / "outside").write_text("password=no")
    (folder / "link").symlink_to(tmp_path / "outside")
    return folder


def providers(vault: Path, **more: str) -> ConfigProviders:
    settings = {"config.providers": "env, file,dir", "config.providers.env.class": JAVA + "EnvVarConfigProvider"}
    settings |= {f"config.providers.{name}.class": f"{JAVA}{kind}ConfigProvider" for name, kind in KINDS}
    settings |= {f"config.providers.{name}.param.allowed.paths": str(vault) for name, _ in KINDS}
    settings["config.providers.env.param.allowlist.pattern"] = "DB_.*"
    return ConfigProviders({**settings, **more})


KINDS = (("file", "File"), ("dir", "Directory"))


def test_references_are_replaced_within_texts(vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_HOST", "db.example")
    config = {
        "url": "jdbc://${env:DB_HOST}/x?p=${file:" + str(vault) + "/db.properties:password}",
        "token": "${dir:" + str(vault) + ":token}",
        "plain": "${vault:a:b} and $HOME",
    }
    resolved = providers(vault).resolve(config)
    assert resolved.config == {
        "url": "jdbc://db.example/x?p=hunter22=",
        "token": "s3cret-token",
        "plain": "${vault:a:b} and $HOME",
    }
    assert resolved.raw == config
    assert "hunter22" not in repr(resolved.secret_values.keys()) + repr(providers(vault))


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${env:HOME}", "not in the worker's allowlist.pattern"),
        ("${env:DB_MISSING}", "no environment variable DB_MISSING"),
        ("${file:{outside}:password}", "not below the worker's allowed.paths"),
        ("${file:{vault}/../outside:password}", "not below the worker's allowed.paths"),
        ("${file:{vault}/link:password}", "not below the worker's allowed.paths"),
        ("${file:{vault}/db.properties:nothing}", "has no line nothing="),
        ("${file:{vault}/missing:password}", "cannot be read"),
        ("${dir:{vault}:../outside}", "is not a file of the directory"),
        ("${dir:{vault}:link}", "not below the worker's allowed.paths"),
    ],
)
def test_what_is_not_allowed_or_not_there_is_an_error_of_its_setting(vault: Path, reference: str, reason: str) -> None:
    text = reference.replace("{vault}", str(vault)).replace("{outside}", str(vault.parent / "outside"))
    with pytest.raises(ConfigException, match="for configuration key") as caught:
        providers(vault).resolve({"fine": "x", "key": text})
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "reference", "needed"),
    [
        ("EnvVar", "${p:HOME}", "param.allowlist.pattern"),
        ("File", "${p:{vault}/db.properties:password}", "param.allowed.paths"),
        ("Directory", "${p:{vault}:token}", "param.allowed.paths"),
    ],
)
def test_a_provider_that_was_allowed_nothing_gives_nothing(vault: Path, kind: str, reference: str, needed: str) -> None:
    bare = ConfigProviders({"config.providers": "p", "config.providers.p.class": f"{JAVA}{kind}ConfigProvider"})
    with pytest.raises(ConfigException, match=f"config.providers.p.{needed}"):
        bare.resolve({"key": reference.replace("{vault}", str(vault))})


@pytest.mark.parametrize("name", ["RINGFENCE_DATABASE_URL", "CONNECT_SASL_JAAS_CONFIG"])
def test_no_pattern_opens_the_platforms_own_variables(vault: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "s3cret")
    everything = providers(vault, **{"config.providers.env.param.allowlist.pattern": ".*"})
    with pytest.raises(ConfigException, match="connectors may not read"):
        everything.resolve({"key": "${env:" + name + "}"})


def test_without_providers_a_reference_is_text(vault: Path) -> None:
    config = {"a": "${file:" + str(vault) + "/db.properties:password}"}
    assert ConfigProviders().resolve(config).config == config


def test_what_the_plugin_made_of_it_is_stored_with_the_references(vault: Path) -> None:
    reference = "${dir:" + str(vault) + ":token}"
    resolved = providers(vault).resolve({"token": reference, "name": "c"})
    made = {"token": "s3cret-token", "url": "https://x/?t=s3cret-token&a=1", "name": "c"}
    stored = resolved.restore_references(made)
    assert stored == {"token": reference, "url": f"https://x/?t={reference}&a=1", "name": "c"}
    assert providers(vault).resolve(stored).config == made


def test_values_are_hidden_in_texts(vault: Path) -> None:
    resolved = providers(vault).resolve({"token": "${dir:" + str(vault) + ":token}"})
    assert resolved.hide("login with s3cret-token failed") == "login with [hidden] failed"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("config.providers.file.class", "x.Y"),
        ("config.providers.file.param.allowed.paths", "relative/path"),
        ("config.providers.env.param.allowlist.pattern", "("),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(vault: Path, key: str, value: str) -> None:
    with pytest.raises(ConfigException):
        providers(vault, **{key: value})
