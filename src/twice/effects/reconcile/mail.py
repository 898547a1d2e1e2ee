"""Look for a mail in a folder of sent mails."""

from __future__ import annotations

import mailbox
from collections.abc import Callable
from pathlib import Path
from typing import Any


def sent_mail(folder: str | Path) -> Callable[[str, Any], Any]:
    """Return a reconcile function: a Maildir or mbox that gets a copy of every mail, searched by message id.

    The mail server must write the copy before it accepts the mail. Where copies go through a queue, as with Postfix'
    `always_bcc`, one may be missing for a while, and the mail would be sent again: use "ask" there.
    """

    def look(key: str, _payload: Any) -> Any:
        place = Path(folder)
        if not place.exists():
            raise LookupError(f"the folder of sent mails {place} does not exist")
        box: mailbox.Mailbox[Any] = (
            mailbox.Maildir(place, create=False) if place.is_dir() else mailbox.mbox(place, create=False)
        )
        try:
            for message in box:
                name = str(message.get("Message-ID", ""))
                if name.startswith(f"<{key}@"):
                    return {"message_id": name}
        finally:
            box.close()
        return None

    return look
