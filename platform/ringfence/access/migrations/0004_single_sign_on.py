import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("access", "0003_login_sessions"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.AddField("grant", "by_groups", models.BooleanField(default=False)),
        migrations.RemoveConstraint("grant", "one_grant"),
        migrations.AddConstraint(
            "grant",
            models.UniqueConstraint(fields=["user", "what", "pattern", "by_groups"], name="one_grant_each"),
        ),
        migrations.CreateModel(
            name="OidcIdentity",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("issuer", models.TextField()),
                ("subject", models.TextField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="identities",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            "oidcidentity", models.UniqueConstraint(fields=["issuer", "subject"], name="one_identity")
        ),
        migrations.AddConstraint(
            "oidcidentity", models.UniqueConstraint(fields=["issuer", "user"], name="one_identity_each")
        ),
    ]
