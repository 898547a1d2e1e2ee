"""Which errors are tried again."""

from __future__ import annotations

import ssl
import urllib.error

import pytest
from pyspark.errors import AnalysisException

from twice.engine.attempt.retries import is_transient


def error_of(library: str, name: str, *bases: type[BaseException]) -> type[BaseException]:
    """Make an error as a client library defines it: the libraries are not needed to run twice."""
    return type(name, bases or (OSError,), {"__module__": f"{library}.exceptions"})


RequestException = error_of("requests", "RequestException")
RequestsConnectionError = error_of("requests", "ConnectionError", RequestException)
MaxRetryError = error_of("urllib3", "MaxRetryError", error_of("urllib3", "HTTPError", Exception))
ResponseError = error_of("urllib3", "ResponseError", error_of("urllib3", "HTTPError", Exception))
TransportError = error_of("httpx", "TransportError", error_of("httpx", "HTTPError", Exception))


def given_up(reason: BaseException) -> BaseException:
    error = MaxRetryError("Max retries exceeded")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    "error",
    [
        error_of("requests", "InvalidURL", RequestException, ValueError)("no host supplied"),
        error_of("requests", "MissingSchema", RequestException, ValueError)("perhaps you meant https://"),
        error_of("requests", "JSONDecodeError", RequestException, ValueError)("Expecting value"),
        error_of("requests", "TooManyRedirects", RequestException)("exceeded 30 redirects"),
        error_of("requests", "SSLError", RequestsConnectionError)("certificate verify failed"),
        error_of("httpx", "UnsupportedProtocol", TransportError)("Request URL is missing a protocol"),
        error_of("httpx", "InvalidURL", Exception)("Invalid port"),
        error_of("httpx", "TooManyRedirects", Exception)("exceeded maximum allowed redirects"),
        given_up(ResponseError("too many redirects")),
        given_up(error_of("urllib3", "SSLError", Exception)("certificate verify failed")),
        urllib.error.URLError("unknown url type: htp"),
        urllib.error.URLError(ssl.SSLCertVerificationError("certificate verify failed")),
        urllib.error.HTTPError("http://x", 404, "Not Found", None, None),
    ],
    ids=lambda error: f"{type(error).__module__}.{type(error).__name__}",
)
def test_a_request_that_fails_the_same_way_again_is_permanent(error):
    assert not is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        RequestsConnectionError("refused"),
        error_of("requests", "ReadTimeout", error_of("requests", "Timeout", RequestException))("read timed out"),
        error_of("requests", "ChunkedEncodingError", RequestException)("connection broken"),
        error_of("httpx", "ConnectError", error_of("httpx", "NetworkError", TransportError))("refused"),
        error_of("httpx", "RemoteProtocolError", TransportError)("server disconnected"),
        given_up(ResponseError("too many 503 error responses")),
        given_up(error_of("urllib3", "NewConnectionError", Exception)("refused")),
        urllib.error.URLError(ConnectionRefusedError(111, "refused")),
        urllib.error.HTTPError("http://x", 503, "Service Unavailable", None, None),
        ConnectionResetError("reset by peer"),
    ],
    ids=lambda error: f"{type(error).__module__}.{type(error).__name__}",
)
def test_a_request_whose_connection_or_server_failed_is_transient(error):
    assert is_transient(error)


def test_the_error_that_wraps_a_request_is_judged_by_it():
    wrapped = ValueError("no rates for that day")
    wrapped.__cause__ = RequestsConnectionError("refused")
    assert is_transient(wrapped)


def test_a_permanent_request_stays_permanent_whatever_was_raised_on_the_way():
    # requests raises SSLError while it handles the MaxRetryError of urllib3.
    error = error_of("requests", "SSLError", RequestsConnectionError)("certificate verify failed")
    error.__context__ = given_up(ConnectionResetError("reset"))
    assert not is_transient(error)


def test_a_table_that_another_attempt_created_and_dropped_meanwhile_is_tried_again():
    text = "org.apache.iceberg.exceptions.NoSuchTableException: Failed to load table core.facts from catalog lake: "
    assert is_transient(AnalysisException(f"{text}dropped by another process"))
    assert not is_transient(AnalysisException("Table does not exist: core.facts"))
