import pytest

from ringfence.connectors.api import (
    ConfigDef,
    ConfigException,
    ConfigType,
    Importance,
    NonEmpty,
    OneOf,
    Password,
    Range,
    UniqueItems,
    Width,
)
from ringfence.connectors.api.config_def import to_text


def definition() -> ConfigDef:
    return (
        ConfigDef()
        .define("topic", ConfigType.STRING, validator=NonEmpty(), importance=Importance.HIGH, group="Main")
        .define("size", ConfigType.INT, default=5, validator=Range(1, 10), group="Main", width=Width.SHORT)
        .define("secret", ConfigType.PASSWORD, default=None)
    )


def test_defaults_fill_in_and_texts_get_their_types() -> None:
    parsed = definition().parse({"topic": " flights ", "size": "7", "other": "kept out"})
    assert parsed == {"topic": "flights", "size": 7, "secret": None}
    assert (parsed.string("topic"), parsed.integer("size")) == ("flights", 7)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, 'Missing required configuration "topic" which has no default value.'),
        ({"topic": ""}, "Invalid value  for configuration topic: String must be non-empty"),
        ({"topic": "t", "size": "abc"}, "Invalid value abc for configuration size: Not a number of type INT"),
        ({"topic": "t", "size": "1_0"}, "Invalid value 1_0 for configuration size: Not a number of type INT"),
        ({"topic": "t", "size": "0"}, "Invalid value 0 for configuration size: Value must be at least 1"),
        ({"topic": "t", "size": "11"}, "Invalid value 11 for configuration size: Value must be no more than 10"),
        ({"topic": None}, "Null value can not be supplied as the configuration value for topic."),
    ],
)
def test_a_bad_configuration_is_refused_in_connects_words(config: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigException) as caught:
        definition().parse(config)
    assert str(caught.value) == message


def test_validation_reports_every_error_once_and_raises_none() -> None:
    values = {value.name: value for value in definition().validate({"size": "x"})}
    assert [len(value.errors) for value in values.values()] == [1, 1, 0]
    assert values["size"].info(ConfigType.INT)["value"] is None


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (ConfigType.BOOLEAN, "TRUE", True),
        (ConfigType.LONG, "-9223372036854775808", -(2**63)),
        (ConfigType.SHORT, "+32767", 32767),
        (ConfigType.DOUBLE, "1e3", 1000.0),
        (ConfigType.LIST, "a , b,c", ["a", "b", "c"]),
        (ConfigType.LIST, "", []),
        (ConfigType.CLASS, "a.B", "a.B"),
        (ConfigType.PASSWORD, "s3cret", Password("s3cret")),
    ],
)
def test_each_type_reads_its_texts(type_: ConfigType, text: str, value: object) -> None:
    assert ConfigDef().define("x", type_).parse({"x": text}) == {"x": value}


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.SHORT, "32768"),
        (ConfigType.INT, "2147483648"),
        (ConfigType.INT, "٣"),
        (ConfigType.INT, ""),
        (ConfigType.LONG, "9" * 5000),
        (ConfigType.DOUBLE, "1_0"),
    ],
)
def test_each_type_refuses_what_kafka_refuses(type_: ConfigType, text: str) -> None:
    with pytest.raises(ConfigException):
        ConfigDef().define("x", type_).parse({"x": text})


def test_a_key_info_has_connects_fields() -> None:
    assert definition().infos()[1] == {
        "name": "size",
        "type": "INT",
        "required": False,
        "default_value": "5",
        "importance": "MEDIUM",
        "documentation": "",
        "group": "Main",
        "order": 2,
        "order_in_group": 2,
        "width": "SHORT",
        "display_name": "size",
        "dependents": [],
    }


def test_a_secret_shows_nowhere() -> None:
    keys = ConfigDef().define("secret", ConfigType.PASSWORD, default="hunter2")
    value = keys.validate({"secret": "hunter3"})[0]
    shown = f"{keys.infos()} {value} {value.info(ConfigType.PASSWORD)} {keys.parse({'secret': 'hunter4'})}"
    assert "hunter" not in shown
    assert keys.parse({"secret": "hunter4"}).password("secret") == "hunter4"


def test_a_wrong_definition_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="defined twice"):
        definition().define("size", ConfigType.INT)
    with pytest.raises(ConfigException):
        ConfigDef().define("x", ConfigType.INT, default=0, validator=Range(1))


def test_recommended_values_can_depend_on_other_settings() -> None:
    class Tables:
        def valid_values(self, name: str, config: object) -> list[object]:
            return ["a", "b"]

        def visible(self, name: str, config: object) -> bool:
            return isinstance(config, dict) and config["mode"] == "table"

    keys = (
        ConfigDef()
        .define("mode", ConfigType.STRING, validator=OneOf("table", "query"))
        .define("table", ConfigType.STRING, default=None, recommender=Tables())
    )
    value = keys.validate({"mode": "query"})[1]
    assert (value.recommended_values, value.visible) == (["a", "b"], False)


def test_validators_accept_and_refuse() -> None:
    OneOf("Poll", ignore_case=True)("x", "poLL")
    with pytest.raises(ConfigException, match="one of: a, b"):
        OneOf("a", "b")("x", "c")
    with pytest.raises(ConfigException, match="Duplicate"):
        UniqueItems()("x", ["a", "a"])


def test_values_become_text_in_kafkas_spelling() -> None:
    assert to_text(ConfigType.BOOLEAN, True) == "true"
    assert to_text(ConfigType.LIST, ["a", "b"]) == "a,b"
    assert to_text(ConfigType.STRING, None) is None


def test_a_group_defines_settings_and_returns_their_names() -> None:
    definition = ConfigDef()
    source = definition.group("Source")
    folder = source.text("folder", "Where to read.", display_name="Folder")
    title = source.text("title", "A title.", None)
    password = source.secret("password", "The password.")
    order = source.choice("order", "What comes first.", ("name", "time"), "name")
    size = definition.group().integer("size", "How many.", 10, 1, 100)
    seconds = source.long("seconds", "How long.", None)
    tables = source.items("tables", "Which.")
    headers = source.flag("headers", "Whether.", True)

    assert definition.parse({folder: "/in"}) == {
        "folder": "/in",
        "title": None,
        "password": None,
        "order": "name",
        "size": 10,
        "seconds": None,
        "tables": [],
        "headers": True,
    }
    assert [*definition.keys] == [folder, title, password, order, size, seconds, tables, headers]
    assert {key.name for key in definition.keys.values() if key.group != "Source"} == {"size"}
    assert definition.keys[order].recommender is not None
    assert definition.keys[folder].importance is Importance.HIGH


@pytest.mark.parametrize(
    ("name", "value"), [("folder", ""), ("size", "0"), ("size", "101"), ("size", str(2**31)), ("order", "size")]
)
def test_a_group_refuses_empty_text_numbers_beyond_their_bounds_and_other_choices(name: str, value: str) -> None:
    definition = ConfigDef()
    group = definition.group()
    group.text("folder", "Where to read.", "/in", validator=NonEmpty())
    group.integer("size", "How many.", 10, 1, 100)
    group.choice("order", "What comes first.", ("name", "time"), "name")
    with pytest.raises(ConfigException, match=name):
        definition.parse({name: value})


def test_a_required_text_of_a_group_may_not_be_empty() -> None:
    definition = ConfigDef()
    definition.group().text("folder", "Where to read.")
    for config in ({}, {"folder": ""}):
        with pytest.raises(ConfigException, match="folder"):
            definition.parse(config)
