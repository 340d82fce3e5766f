"""What the CLIs print, a few lines of each as they came from runs against the scripted model, and what they say.

A new adapter adds a row here and has its tests with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.agents.base import AgentText, AgentTool, AgentUsage, Finished, Said
from harness.record.usage import Usage

# Input, output, from cache, into cache, reasoning: what the scripted model said it used, in all.
USED = Usage(4400, 420, 2800)


@dataclass(frozen=True, slots=True)
class Printed:
    """`lines` of one good run and what they say; `failed` are lines of a run whose key was refused."""

    lines: tuple[str, ...]
    said: tuple[Said, ...]
    usage: Usage | None
    failed: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)


CLAUDE = Printed(
    (
        '{"type":"system","subtype":"init","tools":["Bash","Write"],"mcp_servers":[]}',
        '{"type":"assistant","message":{"role":"assistant","content":[{"type":"thinking","thinking":"Hm."}]}}',
        '{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I write it."}],'
        '"usage":{"input_tokens":1200,"output_tokens":1}}}',
        '{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"toolu_call_t0n0",'
        '"name":"Write","input":{"file_path":"/agent/workspace/solution.py","content":"x"}}]}}',
        '{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_call_t0n0","type":"tool_result",'
        '"content":"File created"}]}}',
        '{"type":"result","subtype":"success","is_error":false,"num_turns":3,"result":"Done: it ran.","usage":'
        '{"input_tokens":4400,"cache_creation_input_tokens":0,"cache_read_input_tokens":2800,"output_tokens":420},'
        '"modelUsage":{"kbh-model":{"inputTokens":4400,"outputTokens":420,"cacheReadInputTokens":2800,'
        '"cacheCreationInputTokens":0}}}',
    ),
    (
        AgentText("I write it."),
        AgentTool("Write", '{"file_path": "/agent/workspace/solution.py", "content": "x"}'),
        AgentUsage(USED, so_far=True),
        Finished(True, "Done: it ran."),
    ),
    USED,
    (
        '{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"Failed to authenticate",'
        '"usage":{"input_tokens":0,"output_tokens":0},"modelUsage":{}}',
    ),
)

CODEX = Printed(
    (
        '{"type":"thread.started","thread_id":"01a204df"}',
        '{"type":"turn.started"}',
        '{"type":"item.completed","item":{"id":"item_1","type":"reasoning","text":"Let me think."}}',
        '{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"I run it."}}',
        '{"type":"item.started","item":{"id":"item_3","type":"command_execution","command":"/bin/bash -lc true",'
        '"aggregated_output":"","exit_code":null,"status":"in_progress"}}',
        '{"type":"item.completed","item":{"id":"item_3","type":"command_execution","command":"/bin/bash -lc true",'
        '"aggregated_output":"","exit_code":0,"status":"completed"}}',
        '{"type":"turn.completed","usage":{"input_tokens":7200,"cached_input_tokens":2800,'
        '"cache_write_input_tokens":0,"output_tokens":420,"reasoning_output_tokens":20}}',
    ),
    (
        AgentText("I run it."),
        AgentTool("command_execution", "/bin/bash -lc true"),
        AgentUsage(Usage(4400, 420, 2800, 0, 20), so_far=True),
        Finished(True),
    ),
    Usage(4400, 420, 2800, 0, 20),
    (
        '{"type":"error","message":"unexpected status 401 Unauthorized"}',
        '{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized"}}',
    ),
)

OPENCODE = Printed(
    (
        '{"type":"step_start","part":{"type":"step-start"}}',
        '{"type":"text","part":{"type":"text","text":"I write it."}}',
        '{"type":"tool_use","part":{"type":"tool","tool":"write","callID":"call_t0n0","state":{"status":"completed",'
        '"input":{"filePath":"/agent/workspace/solution.py","content":"x"},"output":"Wrote file successfully."}}}',
        '{"type":"step_finish","part":{"reason":"tool-calls","type":"step-finish","tokens":{"total":1640,'
        '"input":1200,"output":320,"reasoning":20,"cache":{"write":0,"read":100}},"cost":0}}',
        '{"type":"step_finish","part":{"reason":"stop","type":"step-finish","tokens":{"total":5980,'
        '"input":3200,"output":80,"reasoning":0,"cache":{"write":0,"read":2700}},"cost":0}}',
    ),
    (
        AgentText("I write it."),
        AgentTool("write", '{"filePath": "/agent/workspace/solution.py", "content": "x"}'),
        AgentUsage(Usage(1200, 340, 100, 0, 20), so_far=False),
        AgentUsage(Usage(3200, 80, 2700), so_far=False),
        Finished(True),
    ),
    Usage(4400, 420, 2800, 0, 20),
    ('{"type":"error","error":{"name":"APIError","data":{"message":"The API key is invalid.","statusCode":401}}}',),
)

KIMI = Printed(
    (
        '{"role":"meta","type":"system.version","version":"2.1.0"}',
        '{"role":"assistant","content":"I write it.","tool_calls":[{"type":"function","id":"call_t0n0","function":'
        '{"name":"Write","arguments":"{\\"path\\":\\"solution.py\\"}"}}]}',
        '{"role":"tool","tool_call_id":"call_t0n0","content":"Wrote 65 bytes"}',
        '{"role":"assistant","content":"Done: it ran."}',
        '{"role":"meta","type":"session.resume_hint","session_id":"session_ef29","content":"To resume this session"}',
    ),
    (
        AgentText("I write it."),
        AgentTool("Write", '{"path":"solution.py"}'),
        AgentText("Done: it ran."),
        Finished(True),
    ),
    USED,
    ('{"role":"meta","type":"system.version","version":"2.1.0"}',),
    {
        ".kimi-code/sessions/wd_1/session_1/agents/main/wire.jsonl": (
            b'{"type":"usage.record","model":"m","usage":{"inputOther":1200,"output":340,"inputCacheRead":100,'
            b'"inputCacheCreation":0},"usageScope":"turn"}\n'
            b'{"type":"usage.record","model":"m","usage":{"inputOther":3200,"output":80,"inputCacheRead":2700,'
            b'"inputCacheCreation":0},"usageScope":"turn"}\n{"type":"usage.rec'
        )
    },
)

GEMINI = Printed(
    (
        '{"type":"init","model":"kbh-model"}',
        '{"type":"message","role":"user","content":"Write solution.py."}',
        '{"type":"message","role":"assistant","content":"I write it.","delta":true}',
        '{"type":"tool_use","tool_name":"write_file","tool_id":"write_file__call_t0n0","parameters":'
        '{"file_path":"solution.py","content":"x"}}',
        '{"type":"tool_result","tool_id":"write_file__call_t0n0","status":"success"}',
        '{"type":"result","status":"success","stats":{"total_tokens":7620,"input_tokens":7200,"output_tokens":400,'
        '"cached":2800,"input":4400,"tool_calls":1}}',
    ),
    (
        AgentText("I write it."),
        AgentTool("write_file", '{"file_path": "solution.py", "content": "x"}'),
        AgentUsage(USED, so_far=True),
        Finished(True),
    ),
    USED,
    (
        '{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: 401]"},"stats":'
        '{"total_tokens":0,"input_tokens":0,"output_tokens":0,"cached":0,"input":0}}',
    ),
)

QWEN = Printed(
    (
        '{"type":"system","subtype":"session_start"}',
        '{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I write it."}]}}',
        '{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"call_t0n0",'
        '"name":"write_file","input":{"file_path":"solution.py"}}]}}',
        '{"type":"result","subtype":"success","is_error":false,"num_turns":3,"result":"Done: it ran.","usage":'
        '{"input_tokens":7200,"output_tokens":420,"cache_read_input_tokens":2800,"total_tokens":7620}}',
    ),
    (
        AgentText("I write it."),
        AgentTool("write_file", '{"file_path": "solution.py"}'),
        AgentUsage(USED, so_far=True),
        Finished(True, "Done: it ran."),
    ),
    USED,
    (
        '{"type":"result","subtype":"error_during_execution","is_error":true,"usage":{"input_tokens":0,'
        '"output_tokens":0},"error":{"message":"[API Error: 401 The API key is invalid.]"}}',
    ),
)

MINI = Printed(
    (
        '{"type": "usage", "input_tokens": 4400, "output_tokens": 420, "cache_read_tokens": 2800}',
        '{"type": "text", "text": "I run it."}',
        '{"type": "tool", "name": "run", "arguments": "{\\"command\\": \\"true\\"}"}',
        '{"type": "end", "ok": true, "text": "Done: it ran."}',
    ),
    (
        AgentUsage(USED, so_far=False),
        AgentText("I run it."),
        AgentTool("run", '{"command": "true"}'),
        Finished(True, "Done: it ran."),
    ),
    USED,
    ('{"type": "end", "ok": false, "text": "the model gave no answer: HTTP 401"}',),
)

PRINTED = {
    "claude": CLAUDE, "codex": CODEX, "opencode": OPENCODE, "kimi": KIMI, "gemini": GEMINI, "qwen": QWEN,
    "command": MINI, "mini": MINI,
}  # fmt: skip
