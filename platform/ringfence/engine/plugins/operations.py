"""The operations of a plugin process: a method for each of `requests.plugin_calls`, with its fields as arguments."""

import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, cast

from ringfence.connectors.api import ConfigException, ConnectorError, Examination, SourceOffset, SourcePartition
from ringfence.connectors.common_settings import CONNECTOR_CLASS, PLUGIN_VERSION, of_a_part, source_config_def
from ringfence.connectors.compatibility import read_report
from ringfence.connectors.config_providers import PROVIDERS, ConfigProviders, ResolvedConfig
from ringfence.connectors.java.connector import JavaSourceConnector
from ringfence.connectors.java.files import find_refused_files
from ringfence.connectors.plugins import PluginRegistry
from ringfence.connectors.sdk import files
from ringfence.engine.plugins import plugin_choice, validation
from ringfence.engine.plugins.errors import BadRequest, OffsetsRefused, PluginError
from ringfence.engine.plugins.instances import InstanceRunner, Offsets
from ringfence.engine.plugins.java_trial import walk_in_java
from ringfence.engine.plugins.preview import Bounds, preview
from ringfence.engine.plugins.secret_removal import Redactor, Scrubber
from ringfence.engine.plugins.transform_trial import TransformationChain, sample
from ringfence.engine.plugins.validation import describe_guarantee

_LIMIT: Final = 8000
_NAME: Final = "README.md"


class Operations:
    """One object per process. Arguments and results are JSON values."""

    def __init__(self, registry: PluginRegistry, emit: Callable[[dict[str, object]], None]) -> None:
        self._registry = registry
        self._providers = ConfigProviders(json.loads(os.environ.get(PROVIDERS, "{}")))
        self._instances = InstanceRunner(registry, emit)

    def has_instance(self, name: str) -> bool:
        """Return whether the connector has an instance here."""
        return self._instances.has(name)

    def plugins(self) -> dict[str, object]:
        """Return all connectors that can run, and why others cannot."""
        self._registry.follow_plugin_path()
        return {
            "plugins": [
                {
                    "class": plugin.class_name,
                    "type": plugin.type,
                    "java": plugin_choice.is_java(plugin),
                    "version": plugin.version,
                    "versions": [each.version for each in self._registry.versions(plugin)],
                    "names": sorted(plugin.names),
                    "documentation": documentation_of(plugin.cls),
                    "exactly_once_report": _summary(plugin.cls),
                    "preview_while_running": plugin.cls.preview_while_running,
                    "catalog": plugin.cls.catalog.as_json() if plugin.cls.catalog is not None else None,
                }
                for plugin in self._registry.plugins
            ],
            "broken": self._registry.broken,
        }

    def config_keys(self, plugin: str, common: bool = False, version: str | None = None) -> list[dict[str, object]]:
        """Return the key infos of the connector's own settings; with `common`, also of those that all source connectors
        have.

        version: a version or a range; None for the newest. Raises `BadRequest` if it is not installed.
        """
        config = {CONNECTOR_CLASS: plugin, **({} if version is None else {PLUGIN_VERSION: version})}
        info = plugin_choice.find_version(self._registry, config)
        own = info.cls.config_def()
        if not common:
            return own.infos()
        framework = validation.common_keys(self._registry.versions(plugin_choice.find(self._registry, plugin)))
        mine = [key.info() for key in own.keys.values() if key.name not in framework.keys]
        return [*framework.infos(), *mine]

    def common_keys(self) -> list[dict[str, object]]:
        """Return the key infos of the settings that all source connectors have."""
        return source_config_def({}).infos()

    def validate(self, plugin: str, config: Mapping[str, str | None], exactly_once: bool) -> dict[str, object]:
        """Validate the resolved configuration; the answer contains the configuration as it was given."""
        nulls = {name: value for name, value in config.items() if value is None}
        resolution, errors = self._attempt(config)
        file_errors = {
            name: resolution.hide(text) for name, text in self._find_closed(plugin, resolution.config).items()
        }
        # These are excluded: a plugin that connects to its source would have its client read them.
        settings = {name: value for name, value in {**resolution.config, **nulls}.items() if name not in file_errors}
        answer = validation.validate(self._registry, plugin, settings, exactly_once=exactly_once)
        return validation.as_given(answer, resolution, {**errors, **file_errors})

    def examine(self, config: Mapping[str, str]) -> dict[str, object] | None:
        """Return the answer of `SourceConnector.examine`; None for a connector without one."""
        plugin = plugin_choice.find_nearest(self._registry, config)
        resolution, errors = self._attempt(config)
        errors |= self._find_closed(config[CONNECTOR_CLASS], resolution.config)
        if errors:
            closed = Examination({name: [text] for name, text in errors.items()})
            return _describe_examination(closed, resolution.hide)
        redact = validation.redactor(plugin, resolution.config)
        examination = plugin.cls().examine(resolution.config)
        if examination is None:
            return None
        return _describe_examination(examination, lambda text: redact(resolution.hide(text)))

    def exactly_once_support(self, config: Mapping[str, str]) -> tuple[str, bool, str]:
        """Return what the connector declares for this configuration; see `validation.support_of`."""
        return validation.support_of(plugin_choice.find_for(self._registry, config), self._resolve(config).config)

    def guarantee(self, config: Mapping[str, str], exactly_once: bool) -> dict[str, str]:
        """See `guarantee.describe_guarantee`."""
        resolution = self._resolve(config)
        connector = plugin_choice.find_for(self._registry, config).cls()
        guarantee = describe_guarantee(connector, resolution.config, exactly_once=exactly_once)
        return {**guarantee, "why": resolution.hide(guarantee["why"])}

    def is_java(self, plugin: str) -> bool:
        """Return whether a name means a Java plugin."""
        return plugin_choice.is_java(plugin_choice.find(self._registry, plugin))

    def find_slot(self, config: Mapping[str, str]) -> str | None:
        """See `JavaSourceConnector.find_slot`; None for any other connector."""
        connector = plugin_choice.find_for(self._registry, config).cls()
        if not isinstance(connector, JavaSourceConnector):
            return None
        return connector.find_slot(self._resolve(config).config)

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Return whether the connector has checked the offsets. Raises `OffsetsRefused` if it refuses them."""
        connector = plugin_choice.find_for(self._registry, config).cls()
        try:
            settings = self._resolve(config).config
            return bool(connector.alter_offsets(settings, [(partition, offset) for partition, offset in offsets]))
        except ConnectorError as error:
            raise OffsetsRefused(str(error)) from error

    def preview(
        self,
        config: Mapping[str, str],
        offsets: Offsets,
        worker: Mapping[str, str],
        secret: Sequence[str],
        bounds: Mapping[str, float],
    ) -> dict[str, object]:
        """See `preview.preview`. worker: its converter settings. secret: further settings to hide.

        Raises `BadRequest` if the configuration is not valid by its definition.
        """
        plugin = plugin_choice.find_for(self._registry, config)
        _sound(self.validate(config[CONNECTOR_CLASS].strip(), config, exactly_once=True))
        resolution = self._resolve(config)
        scrubber = self._scrubber(config, resolution, secret)
        if plugin_choice.is_java(plugin):  # its own chain is in the Java process: references there stay unresolved
            resolution = replace(resolution, config={**resolution.config, **_settings_of_parts(config)})
            config, worker = _READY_BYTES, {}
        chain = TransformationChain(config, worker, scrubber)
        try:
            limits = Bounds(int(bounds["records"]), int(bounds["bytes"]), bounds["seconds"])
            return preview(plugin, resolution, chain, offsets, limits, scrubber)
        finally:
            chain.close()

    def try_transforms(
        self, config: Mapping[str, str], record: Mapping[str, object], worker: Mapping[str, str], secret: Sequence[str]
    ) -> dict[str, object]:
        """See `trial.Chain.walk`. Raises `BadRequest`."""
        scrubber = self._scrubber(config, self._attempt(config)[0], secret)
        connector = plugin_choice.find_for(self._registry, config).cls()
        if isinstance(connector, JavaSourceConnector):
            return walk_in_java(connector, config, _settings_of_parts(config), sample(record), scrubber)
        chain = TransformationChain(config, worker, scrubber)
        try:
            return chain.walk(sample(record))
        finally:
            chain.close()

    def replay(
        self,
        config: Mapping[str, str],
        letters: Sequence[Mapping[str, object]],
        worker: Mapping[str, str],
        secret: Sequence[str],
        refused: Sequence[str],
    ) -> list[dict[str, object]]:
        """See `replay.again`. Uses the current chain. Raises `BadRequest`."""
        self._refuse_java(config, "Let the connector read the records again: reset its source offsets.")
        from ringfence.engine.plugins import dead_letter_replay  # it loads Kafka's client, which no other call needs

        resolution = self._resolve(config)
        hide = self._scrubber(config, resolution, secret).text
        return dead_letter_replay.convert_letters(
            dead_letter_replay.Settings(resolution.config, worker), letters, frozenset(refused), hide
        )

    def record_positions(self, config: Mapping[str, str]) -> dict[str, object] | None:
        """Return where the connector's records contain their position in the source; None if they do not."""
        positions = plugin_choice.find_for(self._registry, config).cls().record_positions(self._resolve(config).config)
        return None if positions is None else asdict(positions)

    def count_records(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset]]
    ) -> list[int | None]:
        """Return how many records the source has up to each committed offset, if the connector can count them."""
        connector = plugin_choice.find_for(self._registry, config).cls()
        settings = self._resolve(config).config
        return [connector.count_records(settings, partition, offset) for partition, offset in offsets]

    def _refuse_java(self, config: Mapping[str, str], remedy: str) -> None:
        if plugin_choice.is_java(plugin_choice.find_for(self._registry, config)):
            raise BadRequest(
                f"The transforms and converters of a Java connector run only in its Java process. {remedy}"
            )

    def _scrubber(self, config: Mapping[str, str], resolution: ResolvedConfig, secret: Sequence[str]) -> Scrubber:
        """Return a scrubber for the values of config providers, of passwords by definition, and of the `secret`
        settings.
        """
        passwords = validation.redactor(plugin_choice.find_for(self._registry, config), resolution.config).secrets
        values = [resolution.config[name] for name in secret if name in resolution.config]
        return Scrubber([*passwords, *values, *resolution.secret_values.values()])

    def start(
        self,
        connector: str,
        config: Mapping[str, str],
        offsets: Offsets,
        token: int,
        grant: Mapping[str, object] | None = None,
    ) -> str:
        """Return the version of the code that was started."""
        return self._instances.start(connector, self._resolve(config), offsets, token, grant)

    def task_configs(self, connector: str, max_tasks: int, offsets: Offsets | None) -> list[dict[str, str]]:
        return self._instances.task_configs(connector, max_tasks, offsets)

    def stop(self, connector: str, token: int) -> None:
        self._instances.stop(connector, token)

    def _find_closed(self, plugin: str, config: Mapping[str, str]) -> dict[str, str]:
        """Return, by setting, why the file that it names must not be read."""
        java = plugin_choice.is_java(plugin_choice.find(self._registry, plugin))
        return {**(find_refused_files(config) if java else {}), **files.find_refused(config)}

    def _attempt(self, config: Mapping[str, str | None]) -> tuple[ResolvedConfig, dict[str, str]]:
        return self._providers.attempt({name: value for name, value in config.items() if value is not None})

    def _resolve(self, config: Mapping[str, str]) -> ResolvedConfig:
        try:
            resolution = self._providers.resolve(config)
        except ConfigException as error:
            raise PluginError(str(error)) from error
        for text in files.find_refused(resolution.config).values():
            raise PluginError(text)
        return resolution

    def redactor(self, args: Mapping[str, object]) -> Callable[[str], str]:
        """Return a function that hides the secrets of a call's config, as far as its connector is found."""
        config = args.get("config")
        name = config.get(CONNECTOR_CLASS) if isinstance(config, dict) else args.get("connector")
        if isinstance(config, dict) and name:
            resolution, _ = self._attempt(config)
            try:
                secrets = validation.redactor(plugin_choice.find_nearest(self._registry, config), config)
                return lambda text: secrets(resolution.hide(text))
            except PluginError:
                return str  # no such connector: no plugin has seen the config
            except Exception:  # noqa: BLE001 - the plugin's definition of its settings fails
                everything = Redactor(config, None)
                return lambda text: everything(resolution.hide(text))
        return self._instances.redactor(str(name)) if name else str


def _describe_examination(examination: Examination, hide: Callable[[str], str]) -> dict[str, object]:
    return {
        "errors": {name: [hide(str(text)) for text in texts] for name, texts in examination.errors.items()},
        "summary": hide(examination.summary),
        "proposals": {name: value for name, value in examination.proposals.items() if hide(value) == value},
    }


def _summary(cls: type) -> dict[str, object] | None:
    """Return the summary of the compatibility report if it is valid for the installed code and nothing failed."""
    report = read_report(cls)
    return report.summary() if report is not None and report.passed else None


_READY_BYTES: Final = dict.fromkeys(("key.converter", "value.converter"), "ByteArrayConverter")


def _settings_of_parts(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of transforms, predicates and converters."""
    return {name: value for name, value in config.items() if of_a_part(name)}


def _sound(validation_: Mapping[str, object]) -> None:
    """Raise `BadRequest` with the errors of a validation, if it has any."""
    configs = cast("list[dict[str, dict[str, object]]]", validation_["configs"])
    errors = [str(error) for entry in configs for error in cast("list[object]", entry["value"]["errors"])]
    if errors:
        raise BadRequest("The configuration is not valid yet: " + " ".join(errors[:5]))


@lru_cache(maxsize=256)
def documentation_of(cls: type) -> str:
    """Return plain text or Markdown; "" if there is none."""
    try:
        text = (Path(inspect.getfile(cls)).parent / _NAME).read_text(encoding="utf-8")
    except (OSError, TypeError, UnicodeDecodeError):  # created in memory, or inside an archive
        text = ""
    if not text.lower().find(cls.__name__.removesuffix("Connector").lower()) >= 0:
        text = ""  # the README of a folder with many plugins is about something else
    return (text or inspect.cleandoc(cls.__doc__ or ""))[:_LIMIT]
