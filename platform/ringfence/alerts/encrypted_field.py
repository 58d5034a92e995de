"""A string field that is encrypted in the database, and clear text in Python."""

from typing import TYPE_CHECKING, Any

from django.db import models

from ringfence.encryption import decrypt_text, encrypt_text

ABOUT = "alerts destination"


if TYPE_CHECKING:
    _TextField = models.TextField[str, str]
else:
    _TextField = models.TextField


class EncryptedTextField(_TextField):
    """It cannot be searched. Migrations and the database treat it as a TextField."""

    def from_db_value(self, value: str | None, *_: object) -> str | None:
        """Decrypt the value. Raises `NoKey`."""
        return None if value is None else decrypt_text(value, ABOUT)

    def get_prep_value(self, value: Any) -> Any:
        text = super().get_prep_value(value)
        return encrypt_text(text, ABOUT) if text else text

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.TextField", args, kwargs
