"""A member of a share group as a process of its own: it accepts the first records that it gets, and says so.

python -m tests.support.share_reader <bootstrap> <group> <topic>
"""

import sys
import time

from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.share_groups import Answer, ShareMember


def main() -> None:
    """Until it is killed."""
    bootstrap, group, topic = sys.argv[1:]
    member = ShareMember(Connection(bootstrap), group, [topic], "frozen", 5)
    while not (messages := member.poll(1.0)):
        pass
    for message in messages:
        member.answer(message, Answer.ACCEPT)
    member.send_answers(10.0)
    print("accepted", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
