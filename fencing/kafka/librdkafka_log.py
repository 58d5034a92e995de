"""What librdkafka's log shows about a transaction: the producer's identity, and whether EndTxn was sent again."""

import logging
import re
from typing import Final

log = logging.getLogger(__name__)

_END_TXN: Final = re.compile(r"EndTxn returned (\S+)")
_PID: Final = re.compile(r"Acquired PID\{Id:(\d+),Epoch:(\d+)\}")
_REFUSED: Final = "AddPartitionsToTxn response"  # only logged for an error: "concurrent transactions"


class LogEvidence:
    """Reads librdkafka's log, the only place that shows whether EndTxn was sent again.

    The client expects a `logging.Logger`, of which it only calls `log`. librdkafka logs some 25 lines a transaction;
    real log records of them would take a tenth of the CPU of small transactions.
    """

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.refused = False
        self.producer_id = -1
        self.epoch = -1

    def log(self, level: int, form: str, *parts: object) -> None:
        """As `logging.Logger.log`; the last part is librdkafka's line."""
        line = str(parts[-1])
        if "EndTxn returned" in line:
            match = _END_TXN.search(line)
            self.answers.append(match.group(1) if match else line)
        elif _REFUSED in line:
            self.refused = True
        elif "Acquired PID" in line:
            match = _PID.search(line)
            if match:
                self.producer_id, self.epoch = int(match.group(1)), int(match.group(2))
        elif level >= logging.WARNING:
            log.debug(form, *parts)
