"""E-mail: the message id is made from the key, so that a mail that went out can be found again."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any

from twice.effects.calls import Answer, NotSent, Rejected
from twice.errors import DefinitionError


@dataclass(frozen=True)
class Smtp:
    """A mail server. No server drops a mail because it has seen its id: there are no idempotency keys here."""

    host: str
    sender: str
    port: int = 25
    user: str = ""
    password: str = field(default="", repr=False)
    starttls: bool = False
    honours_keys = False

    def __post_init__(self) -> None:
        if "@" not in str(self.sender):
            raise DefinitionError(f"Smtp(sender={self.sender!r}) must be a mail address")

    def message_id(self, key: str) -> str:
        """Return the id of the mail with this key."""
        return f"<{key}@{self.sender.rsplit('@', 1)[-1]}>"

    def send(self, payload: Any, *, key: str, timeout: float) -> Answer:
        """Send {"to": …, "subject": …, "text": …}; `to` is one address or a list."""
        message = self._message(payload, key)
        try:
            server = smtplib.SMTP(self.host, self.port, timeout=timeout)
        except smtplib.SMTPException as error:
            raise NotSent(f"the mail server refused the connection: {error}") from error
        with server:
            try:
                if self.starttls:
                    server.starttls(context=ssl.create_default_context())
                if self.user:
                    server.login(self.user, self.password)
            except smtplib.SMTPException as error:
                raise NotSent(f"the mail server refused the connection: {error}") from error
            try:
                refused = server.send_message(message)
            except (smtplib.SMTPRecipientsRefused, smtplib.SMTPSenderRefused) as error:
                raise Rejected(f"the mail server refused the mail: {error}", unchanged="no mail was sent") from error
            except smtplib.SMTPDataError as error:
                if error.smtp_code < 500:
                    raise NotSent(f"the mail server deferred the mail: {error}") from error
                raise Rejected(f"the mail server refused the mail: {error}", unchanged="no mail was sent") from error
        return Answer({"message_id": message["Message-ID"], "refused": sorted(refused)})

    def _message(self, payload: Any, key: str) -> EmailMessage:
        if not isinstance(payload, Mapping) or not {"to", "subject", "text"} <= set(payload):
            raise Rejected('a mail needs {"to": …, "subject": …, "text": …}', unchanged="no mail was sent")
        to = payload["to"] if isinstance(payload["to"], list) else [payload["to"]]
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = self.sender, ", ".join(to), payload["subject"]
        message["Message-ID"] = self.message_id(key)
        message.set_content(payload["text"])
        return message
