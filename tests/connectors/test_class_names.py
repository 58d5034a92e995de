"""Dotted names of classes, which configurations and stored records keep."""

import pytest

from ringfence.connectors.catalog import find_part
from ringfence.connectors.class_names import class_name
from ringfence.connectors.transforms import find_transform

FORMER = {
    "cast.CastKey": "Cast$Key",
    "flatten.FlattenValue": "Flatten$Value",
    "headers.InsertHeader": "InsertHeader",
    "insert_field.InsertFieldValue": "InsertField$Value",
    "mask_field.MaskFieldKey": "MaskField$Key",
    "metadata.SetSchemaMetadataValue": "SetSchemaMetadata$Value",
    "replace_field.ReplaceFieldValue": "ReplaceField$Value",
}


@pytest.mark.parametrize("path", FORMER)
def test_a_class_that_moved_keeps_its_former_name(path: str) -> None:
    former, cls = f"connectors.transforms.{path}", find_transform("type", FORMER[path])
    assert class_name(cls) != former
    assert find_transform("type", former) is cls
    assert find_part(former) is find_part(class_name(cls)) is not None
