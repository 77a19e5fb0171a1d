"""A headless Chromium, driven over its DevTools pipe with what Python has.

It is for the tests of pages, and for `docs/screenshots.py`. One browser serves many pages; opening one costs
some 50 ms.
"""

import json
import os
import shutil
import subprocess
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--disable-extensions"),
)
SECONDS = 60.0
"""How long an answer may take, on a busy machine too."""

MOST_PIXELS = 8_000
"""How high a picture is at most; Chromium refuses one of about 16,000 pixels and more."""

Answer = Mapping[str, Any]


class Browser:
    """A running browser: commands go to it and events come back, as JSON texts that end in a NUL."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = os.fdopen(commands, "wb", 0), os.fdopen(answers, "rb", 0)
        self._number, self._rest = 0, b""
        self.events: list[Answer] = []

    def call(self, method: str, session: str = "", **parameters: object) -> Answer:
        """The answer to one command; `RuntimeError` with the browser's message where it fails."""
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._commands.write(json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        if "error" in answer:
            msg = f"{method}: {answer['error']['message']}"
            raise RuntimeError(msg)
        result: Answer = answer["result"]
        return result

    def close(self) -> None:
        """Closes both pipes."""
        self._commands.close()
        self._answers.close()

    def _next(self) -> Answer:
        """The next message from the browser."""
        while b"\0" not in self._rest:
            read = self._answers.read(2**20)
            if not read:
                msg = "the browser ended"
                raise RuntimeError(msg)
            self._rest += read
        text, _, self._rest = self._rest.partition(b"\0")
        message: Answer = json.loads(text)
        return message

    @contextmanager
    def page(self, file: Path, width: int = 1400, **features: str) -> Iterator["Page"]:
        """The page in `file` in a window of `width` pixels, and media `features`, as `dark`."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        page.resize(width)
        page.emulate(**features)
        page.call("Page.navigate", url=file.as_uri())
        page.wait("document.readyState === 'complete' && location.protocol === 'file:'")
        yield page
        self.call("Target.closeTarget", targetId=target)


class Page:
    """One page of a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session, self._width = browser, session, 0

    def call(self, method: str, **parameters: object) -> Answer:
        """The answer to a command about this page."""
        return self._browser.call(method, self._session, **parameters)

    def evaluate(self, script: str) -> Any:  # noqa: ANN401  any JSON
        """The value of a JavaScript expression, awaited; `RuntimeError` where it throws."""
        given = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        answer = self.call("Runtime.evaluate", expression=script, **given)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Waits until a JavaScript expression is true; `TimeoutError` after a minute."""
        until = time.monotonic() + SECONDS
        while not self.evaluate(condition):
            if time.monotonic() > until:
                raise TimeoutError(condition)
            time.sleep(0.01)

    def resize(self, width: int, height: int = 900) -> None:
        """Gives the window another size; below 700 pixels it is a phone's."""
        self._width, phone = width, width < 700
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def emulate(self, media: str = "", **features: str) -> None:
        """Shows the page as on another medium, as `print`, or with another colour scheme."""
        values = [
            {"name": name.replace("_", "-"), "value": value} for name, value in sorted(features.items())
        ]
        self.call("Emulation.setEmulatedMedia", media=media, features=values)

    def key(self, key: str) -> None:
        """Presses a key: a named one, as `Tab` or `Enter`, or a character."""
        text = {"Enter": "\r", "Tab": ""}.get(key, key)
        codes = {"Enter": 13, "Tab": 9}
        more = {"key": key, "text": text, "windowsVirtualKeyCode": codes.get(key, 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def events(self, *methods: str) -> list[Answer]:
        """What the browser reported of this page, of these kinds."""
        self.evaluate("1")
        own = [event for event in self._browser.events if event.get("sessionId") == self._session]
        return [event["params"] for event in own if event["method"] in methods]

    def screenshot(self, file: Path, *, of: str = "") -> None:
        """Writes a PNG of what the window shows, or of one element."""
        beyond = {"captureBeyondViewport": True, "clip": self._place(of)} if of else {}
        data = self.call("Page.captureScreenshot", format="png", **beyond)
        file.write_bytes(b64decode(data["data"]))

    def screenshots(self, file: Path) -> list[Path]:
        """Writes the whole page as PNGs from top to bottom, as many as needed: `page.png`, `page-2.png`."""
        height = self.evaluate("document.documentElement.scrollHeight")
        made = []
        for number, top in enumerate(range(0, height, MOST_PIXELS), start=1):
            made.append(file.with_stem(f"{file.stem}-{number}") if number > 1 else file)
            self.resize(self._width, min(MOST_PIXELS, height - top))
            self.evaluate(f"scrollTo(0, {top})")
            self.screenshot(made[-1])
        return made

    def _place(self, selector: str) -> Mapping[str, float]:
        """Where an element is on the page, in pixels."""
        place_of = f"document.querySelector({selector!r}).getBoundingClientRect()"
        size = "width: place.width, height: place.height, scale: 1"
        script = f"(place => ({{x: place.x + scrollX, y: place.y + scrollY, {size}}}))({place_of})"
        place: Mapping[str, float] = self.evaluate(script)
        return place

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return b64decode(self.call("Page.printToPDF", printBackground=False)["data"])


@contextmanager
def started(profile: Path) -> Iterator[Browser]:
    """A browser with an empty profile in `profile`, which ends with the block."""
    assert BROWSER
    down, commands = os.pipe()
    answers, up = os.pipe()
    script = f'exec "$0" "$@" 3<&{down} 4>&{up}'
    command = ["/bin/bash", "-c", script, BROWSER, *QUIET, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        [*command, "--remote-debugging-pipe", "about:blank"], pass_fds=(down, up), stderr=subprocess.DEVNULL
    )
    os.close(down)
    os.close(up)
    browser = Browser(commands, answers)
    try:
        yield browser
    finally:
        try:
            browser.call("Browser.close")
            process.wait(SECONDS)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
        browser.close()
