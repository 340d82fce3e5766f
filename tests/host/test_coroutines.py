"""Coroutines run when something waits for them, and what is never waited for never runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, KERNEL, LEAK, WORK, classes, lint, model, reasons, states
from test_python_meaning import executed, interpreted

SAME = {
    "a coroutine that nobody waits for does nothing": """
seen = []
async def f(): seen.append(1)
c = f()
c.close()
answer = seen
""",
    "gather, tasks and threads give what they made": """
import asyncio
seen = []
async def f(n):
    seen.append(n)
    return n + 1
async def main():
    loop = asyncio.get_running_loop()
    t = asyncio.create_task(f(4))
    return [await f(1), await asyncio.gather(f(2), f(3)), await t, await loop.run_in_executor(None, pow, 2, 3),
            await asyncio.to_thread(pow, 2, 4), await asyncio.wait_for(f(7), 3), [await f(i) for i in range(2)]]
answer = [asyncio.run(main()), seen]
""",
    "a loop runs its tasks before what comes later": """
import asyncio
seen = []
async def f(n): seen.append(n)
async def main():
    asyncio.create_task(f(1))
    await f(2)
    await asyncio.sleep(0)
    seen.append(3)
    asyncio.create_task(f(4))
asyncio.run(main())
answer = seen
""",
    "managers, iterators and generators that are waited for": """
import asyncio, contextlib
class C:
    async def __aenter__(self): return 5
    async def __aexit__(self, *a): return a[0] is ValueError
class R:
    def __init__(self): self.n = 0
    def __aiter__(self): return self
    async def __anext__(self):
        self.n += 1
        if self.n > 2: raise StopAsyncIteration
        return self.n
class A:
    def __await__(self):
        return 3
        yield
seen = []
@contextlib.asynccontextmanager
async def c():
    seen.append("in")
    yield 3
    seen.append("out")
async def g():
    yield 1
    yield await A()
async def main():
    async with C() as v, c() as w:
        raise ValueError
    async with asyncio.TaskGroup() as group:
        t = group.create_task(C().__aenter__())
    return [v, w, [x async for x in R()], [x async for x in g()], t.result()]
answer = [asyncio.run(main()), seen]
""",
    "exceptions come out where one waits": """
import asyncio
async def f(n):
    if n: raise ValueError("a")
    return n
async def main():
    try:
        await f(1)
    except ValueError:
        r = await asyncio.gather(f(0), f(1), return_exceptions=True)
        return [r[0], isinstance(r[1], ValueError)]
answer = asyncio.run(main())
""",
    "generators return to what yields from them": """
def g():
    yield 1
    return 5
def h():
    r = yield from g()
    yield r
answer = list(h())
""",
}
LAUNCHES = (
    "import asyncio\nasync def work(*a):\n    gemm[(triton.cdiv(a[4], 64), a[5] // 128)](*a, BM=64, BN=128, BK=64)\n"
)
CALL = WORK.partition("\n")[0] + "\ntask = work(x, self.weight, self.weight_scale, y, M, N, K)\n"


@pytest.mark.parametrize("what", SAME)
def test_a_program_means_what_it_means_in_python(what: str) -> None:
    assert interpreted(SAME[what]) == executed(SAME[what])


@pytest.mark.parametrize("waits", ["asyncio.run(task)", "asyncio.new_event_loop().run_until_complete(task)"])
def test_a_kernel_in_a_coroutine_that_runs_is_the_work(tmp_path: Path, waits: str) -> None:
    report = lint(tmp_path, HEAD + LAUNCHES + KERNEL + model(f"{CALL}{waits}\nreturn y\n"))
    assert not classes(report), classes(report)
    assert set(states(report).values()) == {"kept"}, reasons(report)


def test_a_kernel_in_a_coroutine_that_never_runs_is_a_decoy(tmp_path: Path) -> None:
    report = lint(tmp_path, HEAD + LAUNCHES + KERNEL + model(f"{CALL}task.close()\n{LEAK}"))
    assert "dead-decoy-kernel" in classes(report), classes(report)
