"""A real SFTP server of our own: asyncssh's, in a process that can be killed and started again."""

import asyncio
import sys
from pathlib import Path

import asyncssh

from ringfence.local.ports import free_port
from tests.support.server_process import ServerProcess

NEEDS = "an SFTP server"
USER = "reader"
PASSWORD = "secret-of-the-reader"


class SftpServer:
    """One user, with a password and a key, whose root is `folder`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.port = free_port()
        self.folder = root / "files"
        self.folder.mkdir(parents=True)
        self._server = ServerProcess(root / "log", self.port)
        host = asyncssh.generate_private_key("ssh-ed25519")
        host.write_private_key(root / "host")
        user = asyncssh.generate_private_key("ssh-ed25519")
        user.write_public_key(root / "authorized")
        self.fingerprint = host.get_fingerprint()
        self.private_key = user.export_private_key().decode()
        self.locked_key = user.export_private_key(passphrase="open sesame").decode()

    def start(self) -> "SftpServer":
        self._server.start([sys.executable, "-m", "tests.support.sftp", str(self._root), str(self.port)], 30)
        return self

    def settings(self) -> dict[str, str]:
        """Of a connector that reads the folder `in`."""
        return {
            "url": f"sftp://127.0.0.1:{self.port}/in",
            "sftp.user": USER,
            "sftp.password": PASSWORD,
            "sftp.host.key": self.fingerprint,
        }

    def stop(self) -> None:
        self._server.stop()


class _Passwords(asyncssh.SSHServer):
    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == (USER, PASSWORD)


async def _serve(root: Path, port: int) -> None:
    await asyncssh.listen(
        "127.0.0.1",
        port,
        server_factory=_Passwords,
        server_host_keys=[str(root / "host")],
        authorized_client_keys=str(root / "authorized"),
        sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=str(root / "files").encode()),
    )
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
