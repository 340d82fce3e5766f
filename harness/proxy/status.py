"""How a call ended, from what the upstream said and did: HTTP status and structured errors, never a model's prose."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.proxy.dialects.common import Answer, ApiError
from harness.record.exchange import CallStatus, Dialect

__all__ = ["Verdict", "of_answer", "of_error"]

_CREDIT_CODE = re.compile(
    r"insufficient_quota|billing_error|billing_not_active|billing_hard_limit_reached|credit_balance_too_low"
    r"|insufficient_credits|insufficient_balance|exceeded_current_quota_error|payment_required",
    re.IGNORECASE,
)
_CREDIT_WORDS = re.compile(
    r"credit balance is too low|insufficient (?:credits?|balance|funds)|(?:no|not enough|out of|more) credits"
    r"|credits? (?:are|is|have been|has been) (?:depleted|exhausted|used up)|requires more credits"
    r"|account (?:is )?suspended due to insufficient balance",
    re.IGNORECASE,
)
_QUOTA_WORDS = re.compile(r"exceeded your current quota", re.IGNORECASE)
_KINDS: tuple[tuple[re.Pattern[str], CallStatus], ...] = (
    (re.compile(r"authentication|permission|invalid_api_key|unauthenticated", re.IGNORECASE), "auth"),
    (re.compile(r"rate_limit|too_many_requests|resource_exhausted|\b429\b", re.IGNORECASE), "rate"),
    (re.compile(r"overloaded|server_error|api_error|internal|unavailable|timeout|\b5\d\d\b", re.IGNORECASE),
     "unavailable"),
    (re.compile(r"invalid_request|not_found|context_length|invalid_prompt|too_large|invalid_argument|\b40[04]\b",
                re.IGNORECASE), "rejected"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdict:
    """A status, and one sentence on what went wrong ("" where nothing did)."""

    status: CallStatus
    detail: str = ""


def of_error(status: int, error: ApiError | None, dialect: Dialect) -> Verdict:
    """How a call ended whose answer has an HTTP status that says so, with the error that its body states."""
    said = _said(error)
    detail = f"the upstream answered {status}{said}"
    if status == 402 or _is_credit(error, dialect):
        return Verdict("credit", detail)
    if status in (401, 403):
        return Verdict("auth", detail)
    if status == 429:
        return Verdict("rate", detail)
    if status >= 500 or status == 408:
        return Verdict("unavailable", detail)
    return Verdict("rejected", detail)


def of_answer(answer: Answer, dialect: Dialect, *, size: int, counting: bool, broke: str = "") -> Verdict:
    """How a call ended that was answered with 200. `size` is the bytes that came, `broke` how the connection ended if
    not well, `counting` that only tokens were counted.
    """
    if answer.error is not None:
        return _of_stated(answer.error, dialect)
    if answer.blocked:
        return Verdict("rejected", f"the upstream blocked the request: {answer.blocked}")
    if broke and not answer.complete:
        return Verdict("cut", f"the answer broke off: {broke}")
    if not size:
        return Verdict("empty", "the upstream answered 200 without a byte of a body")
    if not answer.complete:
        return Verdict("cut", "the answer ended without the end that its dialect has")
    if not counting and not answer.said:
        return Verdict("empty", "the upstream's answer says nothing")
    return Verdict("ok")


def _of_stated(error: ApiError, dialect: Dialect) -> Verdict:
    detail = f"the upstream's answer turned into an error{_said(error)}"
    if _is_credit(error, dialect) or re.search(r"\b402\b", error.code):
        return Verdict("credit", detail)
    if re.search(r"\b40[13]\b", error.code):
        return Verdict("auth", detail)
    status: CallStatus = next((status for known, status in _KINDS if known.search(error.code)), "unavailable")
    return Verdict(status, detail)


def _is_credit(error: ApiError | None, dialect: Dialect) -> bool:
    """Whether an error speaks of money. Gemini words a limit of the rate as a quota, with a hint at billing."""
    if error is None:
        return False
    if _CREDIT_CODE.search(error.code) or _CREDIT_WORDS.search(error.message):
        return True
    return dialect != "gemini" and _QUOTA_WORDS.search(error.message) is not None


def _said(error: ApiError | None) -> str:
    if error is None or not (error.code or error.message):
        return ""
    text = " ".join(f"{error.code}: {error.message}".strip(": ").split())
    return f" ({text[:300]})"
