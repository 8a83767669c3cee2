"""Every page of the console in a real browser: what is shown, what is asked for elsewhere (nothing), and names that would be scripts.

Tests `actions.py`, `pages/now.py`, `pages/query.py`, `pages/queries.py`, `pages/editor.py`, `pages/previewing.py`, `pages/letters.py`,
`pages/sampling.py`, `pages/stalls.py`, `pages/streams.py`, `pages/connectors.py`, `pages/history.py`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cep.errors import CepError
from cep.service.access import Role
from cep.service.token_file import add_token
from driver import SESSION, TIME, LocalCluster, Query, col, count, lit, stream, sum_
from tests.support.console_process import EVIL, console_of
from tests.support.waiting import until

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.long, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]

NAME = EVIL.replace("/", "")  # of a query, which is part of an address
VISITS = stream(
    f"in {NAME}", **{f"c {EVIL}": str, ":onclick": str, "n": "int64", "ts": "timestamp[ms]", "event_time": "ts", "disorder": "0s"}
)
START_MS = 1_700_000_000_000
SECRET = "a secret of enough characters"


def evil_query() -> Query:
    """Names, constants, notes and dead letters of it are all what a page must take for text."""
    divided = lit(7) // (col("n") - 3)
    chosen = {f"c {EVIL}": col(f"c {EVIL}"), ":onclick": col(":onclick"), "d": divided, "ts": col("ts")}
    return (
        Query(NAME)
        .source(VISITS)
        .filter(f"f {EVIL}", col(f"c {EVIL}") != f"constant {EVIL}")
        .map(f"m {EVIL}", **chosen)
        .aggregate("w", TIME("1s"), by=[f"c {EVIL}", ":onclick"], visits=count())
        .output(f"out {NAME}")
    )


def failing() -> Query:
    """It fails as soon as there are rows, and names the largest keys, which are what users sent."""
    grouped = Query("failing").source(VISITS).aggregate("s", SESSION("1h"), by=f"c {EVIL}", visits=count())
    return grouped.output("sessions").options(state_bytes_max=2_000, parallelism=1)


def rows(n: int, begin: int = 0) -> list[dict[str, Any]]:
    """Every fifth becomes a dead letter."""
    return [{f"c {EVIL}": EVIL, ":onclick": "window.pwned=4", "n": i % 5, "ts": START_MS + 100 * i} for i in range(begin, begin + n)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def tokens(folder: Path) -> Path:
    """The file of tokens beside the cluster's own."""
    return folder / "tokens"


@pytest.fixture(scope="module")
def running(folder: Path, tokens: Path) -> Iterator[LocalCluster]:
    with LocalCluster(2, token="a-token", numa=False, data=[folder], tokens=str(tokens)) as cluster:
        cluster.deploy(evil_query())
        cluster.deploy(failing())
        with pytest.raises(CepError):  # which the audit log has, with what was wrong
            cluster.deploy(Query("refused").source(VISITS).filter("f", col("ts") == f"no time {EVIL}").output("o").to_json())
        cluster.deploy(Query("other").source(VISITS).output("passed").options(recover="on-commit"))
        yield cluster


@pytest.fixture(scope="module")
def address(running: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with console_of(running.rest.url, tmp_path_factory.mktemp("console"), "a-token", SECRET) as url:
        yield url


@pytest.fixture(scope="module")
def publishing(running: LocalCluster) -> Iterator[None]:
    """Rows go on coming."""
    over: list[bool] = []

    def publish() -> None:
        with running.publisher(f"in {NAME}", keep_open=True) as out:
            begin = 0
            while not over:
                out.send(rows(50, begin))
                begin += 50

    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(publish)
        try:
            yield
        finally:
            over.append(True)
        done.result()


class Browsing:
    """A page, what it asked for elsewhere, and what its scripts complained of."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        self.foreign: list[str] = []
        self.errors: list[str] = []
        page.route("**/*", self._route)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: self.errors.append(f"dialog {dialog.message}"))

    def _route(self, route: Any) -> None:
        if route.request.url.startswith((self.address, "data:")):
            route.continue_()
        else:
            self.foreign.append(route.request.url)
            route.abort()

    def go(self, path: str, *words: str) -> None:
        """Until all these words are on the page."""
        self.page.goto(self.address + path)
        for word in words:
            self.sees(word)

    def sees(self, word: str) -> None:
        until(lambda: self._has(word))

    def _has(self, word: str) -> bool:
        try:
            return word in self.page.inner_text("body") or word in self.svg()
        except playwright.Error:  # another page has come meanwhile
            return False

    def svg(self) -> str:
        return str(self.page.evaluate("[...document.querySelectorAll('svg text, svg title')].map(e => e.textContent).join('\\n')"))

    def check(self) -> None:
        assert (self.page.evaluate("window.pwned"), self.foreign, self.errors) == (None, [], [])
        assert self.page.evaluate("document.querySelectorAll('img[onerror], img[src=x], [onclick]').length") == 0


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def browsing(chromium: Any, address: str) -> Iterator[Browsing]:
    context = chromium.new_context(viewport={"width": 1600, "height": 1200})
    made = Browsing(context.new_page(), address)
    made.page.goto(f"{address}/?secret={quote(SECRET)}")
    yield made
    made.check()
    context.close()


def test_without_the_secret_there_is_a_form(chromium: Any, address: str) -> None:
    context = chromium.new_context()
    made = Browsing(context.new_page(), address)
    made.go("/queries", "The secret of this console")
    made.page.fill("input", SECRET)
    made.page.click("button")
    made.sees("Machines")
    made.check()
    context.close()


def test_now(browsing: Browsing, publishing: None) -> None:
    browsing.go("/", "Machines", "dead letters", "im-0", "im-1", "failing has failed", EVIL[:12])
    until(lambda: EVIL[:30] in browsing.page.inner_text(".alarm.bad"))
    until(lambda: "0/s" not in browsing.page.inner_text(".tile >> nth=0"))


def test_queries_by_keys_and_filter(browsing: Browsing, publishing: None) -> None:
    browsing.go("/", "Machines")
    browsing.page.keyboard.press("?")
    browsing.sees("filter the table")
    browsing.page.keyboard.press("Escape")
    browsing.page.keyboard.press("q")
    browsing.sees("other")
    until(lambda: NAME in browsing.page.inner_text("tbody"))
    until(lambda: browsing.page.locator("tbody tr").count() == 3)
    browsing.page.keyboard.press("/")
    until(lambda: browsing.page.evaluate("document.activeElement.matches('.filter input')"))
    browsing.page.keyboard.type("othe")
    until(lambda: browsing.page.locator("tbody tr").count() == 1)
    browsing.page.click("tbody tr")
    browsing.page.wait_for_url("**/queries/other", timeout=45_000)


def test_a_query(browsing: Browsing, publishing: None) -> None:
    browsing.go(f"/queries/{quote(NAME, safe='')}", "Instances", "SQ1/0", "integer division by zero")
    until(lambda: f"m {EVIL}"[:10] in browsing.svg())
    until(lambda: EVIL in browsing.page.inner_text("body"))
    browsing.sees("at a time since this page was opened, and why")
    browsing.page.click("text=sample 5 s")
    until(lambda: browsing.page.locator("img.picture").count() or "py-spy" in browsing.page.inner_text("body"))


def test_a_query_that_has_failed(browsing: Browsing, publishing: None) -> None:
    browsing.go("/queries/failing", "StateLimitExceeded", "failed")
    until(lambda: EVIL[:30] in browsing.page.inner_text("div.bad:not(.dot)"))


def test_actions_ask_first(browsing: Browsing, running: LocalCluster, publishing: None) -> None:
    running.deploy(Query("short").source(VISITS).output("short.out").options(recover="on-commit"))
    browsing.go("/queries/short", "Instances", "SQ1/0")
    browsing.page.click("text=move …")
    browsing.sees("It goes on there with its state")
    browsing.page.click("text=leave it")
    browsing.page.click("text=stop …")
    browsing.sees("Windows that are open do not fire")
    browsing.page.click("text=leave it")
    assert running.query("short").status()["state"] == "running"
    browsing.page.click("text=drain …")
    browsing.sees("windows that are open fire with what they have")
    browsing.page.click("text=drain it")
    until(lambda: running.query("short").status()["state"] != "running")
    browsing.page.click("text=delete …")
    browsing.page.click("text=delete it")
    until(lambda: "short" not in {each["name"] for each in running.queries()})
    browsing.page.wait_for_url("**/queries", timeout=45_000)


def chosen(browsing: Browsing, label: str, option: str) -> None:
    browsing.page.get_by_label(label, exact=True).click()
    browsing.page.locator(".q-menu .q-item", has_text=option).first.click()


def test_moving_and_stopping_to_their_end(browsing: Browsing, running: LocalCluster) -> None:
    """What will happen is said before, and what has happened behind it."""
    made = Query("long").source(VISITS).aggregate("w", TIME("1s"), by="n", visits=count()).output("long.out")
    query = running.deploy(made.options(recover="on-commit", parallelism=1))
    (stays,) = [each["im"] for each in query.status()["placed"] if each["subquery"] == "SQ2"]
    other = next(each for each in ("im-0", "im-1") if each != stays)
    browsing.go("/queries/long", "Instances", "SQ2/0")
    browsing.page.click("text=move …")
    browsing.sees("It goes on there with its state while the query runs")
    chosen(browsing, "instance", "SQ2/0")
    chosen(browsing, "instance manager", other)
    browsing.page.click("text=move it")
    browsing.sees(f"SQ2/0 is on {other}")
    assert [each["im"] for each in query.status()["placed"] if each["subquery"] == "SQ2"] == [other]
    browsing.page.click("text=stop …")
    browsing.page.click("text=stop it")
    browsing.sees("long stops")
    until(lambda: query.status()["state"] == "stopped")
    until(lambda: browsing.page.inner_text(".state >> nth=0") == "stopped")
    query.delete()


def test_scaling_and_upgrading_to_their_end(browsing: Browsing, running: LocalCluster, publishing: None) -> None:
    """Each says what will happen, and what has happened, and the page shows it."""
    kept = Query("grows").source(VISITS).filter("f", col("n") != 7351)
    made = kept.aggregate("w", TIME("1s"), by="n", visits=count()).aggregate("all", TIME("1s"), visits=sum_("visits")).output("grows.out")
    query = running.deploy(made.options(recover="on-commit", parallelism={"SQ1": 1, "SQ2": 2}))

    def instances() -> list[str]:
        return sorted(f"{each['subquery']}/{each['index']}" for each in query.plan()["instances"])

    def scaled(to: int, said: str) -> None:
        browsing.page.click("text=scale …")
        browsing.sees("It takes a checkpoint and goes on from there with so many instances")
        browsing.sees("SQ1 stays as it is: it reads stream")
        browsing.sees("SQ3 stays as it is: it puts out 'grows.out'")
        browsing.page.get_by_label("instances", exact=True).fill(str(to))
        browsing.page.click("text=scale it")
        browsing.sees(said)

    browsing.go("/queries/grows", "Instances", "SQ2/1")
    scaled(1, "cannot be scaled from 2 to 1 instances: ")
    scaled(3, "SQ2 has 3 instances; it had 2")
    assert instances() == ["SQ1/0", "SQ2/0", "SQ2/1", "SQ2/2", "SQ3/0"]
    until(lambda: "SQ2/2" in browsing.page.inner_text("tbody >> nth=0"))
    scaled(2, "SQ2 has 2 instances; it had 3")
    assert instances() == ["SQ1/0", "SQ2/0", "SQ2/1", "SQ3/0"]
    until(lambda: "SQ2/2" not in browsing.page.inner_text("tbody >> nth=0"))
    browsing.page.click("text=upgrade …")
    browsing.page.wait_for_url("**/editor?query=grows", timeout=45_000)
    browsing.sees("7351")
    typed(browsing, json.dumps(query.status()["document"]).replace("7351", "7352"))
    browsing.sees("JSON, 1 line")
    browsing.page.get_by_role("button", name="upgrade …").click()
    browsing.sees("It takes a checkpoint, and goes on from there as this query")
    browsing.page.click("text=upgrade it")
    browsing.page.wait_for_url("**/queries/grows", timeout=45_000)
    browsing.sees("SQ2/0")
    assert "7352" in str(query.plan()["query"]) and "7351" not in str(query.plan()["query"])
    query.delete()


def test_a_token_that_may_only_read(chromium: Any, running: LocalCluster, tokens: Path, tmp_path: Path) -> None:
    """Buttons that it may not use say which role they need; all is shown."""
    reads = add_token(tokens, "reads", [Role("read")], "").text
    with console_of(running.rest.url, tmp_path, reads, SECRET) as url:
        browsing = Browsing(chromium.new_page(), url)
        browsing.page.goto(f"{url}/?secret={quote(SECRET)}")
        browsing.go("/queries/other", "Instances", "SQ1/0")
        for words in ("stop …", "drain …", "move …", "sample 5 s"):
            pressed = browsing.page.get_by_role("button", name=words)
            until(pressed.is_disabled)
            assert pressed.get_attribute("title") == "this needs the role deploy, which the console's token does not have"
        browsing.go("/editor", "What it would become")
        until(browsing.page.get_by_role("button", name="deploy …").is_disabled)
        browsing.check()
        browsing.page.close()


def typed(browsing: Browsing, text: str) -> None:
    """In place of what stands in the editor."""
    browsing.page.click(".cm-content")
    browsing.page.keyboard.press("Control+a")
    browsing.page.keyboard.press("Delete")
    browsing.page.keyboard.insert_text(text)


def test_the_editor(browsing: Browsing, running: LocalCluster, publishing: None) -> None:
    browsing.go("/editor", "What it would become")
    quoted = "'" + f"in {NAME}".replace("'", "''") + "'"
    typed(browsing, f"name: typed\noperators:\n- {{name: a, type: filtr, input: {quoted}}}\noutputs:\n- {{stream: o, input: a}}\n")
    browsing.sees("line 3: unknown type 'filtr'")
    until(lambda: browsing.page.locator(".cm-wrong-line").count() == 1)
    typed(browsing, f"name: typed\noperators: []\noutputs:\n- {{stream: o, input: {quoted}}}\n")
    browsing.sees("query typed")
    until(lambda: browsing.page.locator(".cm-wrong-line").count() == 0)
    browsing.page.click("text=preview >> nth=0")
    browsing.sees("newest first")
    until(lambda: EVIL in browsing.page.inner_text("tbody"))
    browsing.page.click("text=difference")
    browsing.sees("there is no query 'typed' yet")
    browsing.page.click("text=deploy …")
    browsing.page.click("text=deploy it")
    until(lambda: "typed" in {each["name"] for each in running.queries()})
    browsing.page.wait_for_url("**/queries/typed", timeout=45_000)
    until(lambda: not [each for each in running.queries() if each["lease_s"]])  # the preview has gone with its page
    running.query("typed").delete()


def test_streams(browsing: Browsing, publishing: None) -> None:
    browsing.go("/streams", "passed", f"in {NAME}")
    browsing.page.click("tbody tr td >> text=in <script>")
    browsing.page.click("text=show rows")
    browsing.sees("newest first")
    until(lambda: "window.pwned=4" in browsing.page.inner_text("body"))


def test_connectors(browsing: Browsing, running: LocalCluster, folder: Path) -> None:
    """What could be made no row of is a record that would be a script; one that cannot run says why, also among what is to be looked at."""
    (folder / "first.jsonl").write_text(f'{EVIL}\n{{"v": 1}}\n')
    running.declare(stream("brought", v="int64"))
    running.connect({"name": "reading", "stream": "brought", "from": {"connector": "files", "path": str(folder)}})
    running.connect({"name": "broken", "stream": "brought", "from": {"connector": "files", "path": f"{folder}/nowhere"}})
    try:
        browsing.go("/connectors", "reading", "broken", "failing")
        browsing.page.click("tbody tr td >> text=reading")
        browsing.sees("first.jsonl")
        until(lambda: "window.pwned=1" in browsing.page.inner_text("body"))
        browsing.go("/", "connector broken is failing")
    finally:
        for name in ("reading", "broken"):
            running.disconnect(name)


def test_history(browsing: Browsing) -> None:
    browsing.go("/history", "deploy", "cluster", NAME, "no time </script>")


def test_dark(browsing: Browsing) -> None:
    browsing.go("/", "Machines")
    browsing.page.keyboard.press("t")
    browsing.sees("theme: light")
    browsing.page.keyboard.press("t")
    browsing.sees("theme: dark")
    until(lambda: browsing.page.evaluate("document.body.classList.contains('body--dark')"))


def test_an_orchestrator_that_is_away_is_said(browsing: Browsing, running: LocalCluster, tmp_path: Path) -> None:
    with console_of("http://127.0.0.1:9", tmp_path) as url:
        made = Browsing(browsing.page.context.new_page(), url)
        made.go("/", "cannot be reached")
        made.check()
