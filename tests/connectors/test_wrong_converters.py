"""What is wrong about a converter stands at the setting that is wrong, once."""

import pytest

from ringfence.connectors.common_settings import source_config_def

JSON = "org.apache.kafka.connect.json.JsonConverter"
SCHEMAS = "value.converter.schemas.enable"
AVRO = "io.confluent.connect.avro.AvroConverter"


def errors(config: dict[str, str]) -> dict[str, list[str]]:
    """Messages by setting, of the settings of parts only."""
    given = {"name": "c", "connector.class": "FileStreamSource", **config}
    found = source_config_def(given).validate(given)
    return {value.name: list(value.errors) for value in found if value.errors and ".converter" in value.name}


@pytest.mark.parametrize(
    ("config", "setting", "message"),
    [
        ({"value.converter": "com.example.Converter"}, "value.converter", "com.example.Converter"),
        ({"header.converter": "com.example.Converter"}, "header.converter", "com.example.Converter"),
        ({"key.converter": "RecordIsTombstone"}, "key.converter", "RecordIsTombstone"),
        ({"header.converter": AVRO}, "header.converter", "AvroConverter"),
        (
            {"value.converter": JSON, "value.converter.schemas.enable": "maybe"},
            "value.converter.schemas.enable",
            "maybe",
        ),
        ({"value.converter": AVRO}, "value.converter.schema.registry.url", "schema.registry.url"),
    ],
)
def test_one_error_at_its_own_setting(config: dict[str, str], setting: str, message: str) -> None:
    found = errors(config)
    assert list(found) == [setting]
    assert len(found[setting]) == 1
    assert message in found[setting][0]


def test_a_right_one_has_none() -> None:
    assert errors({"value.converter": JSON, SCHEMAS: "false"}) == {}
