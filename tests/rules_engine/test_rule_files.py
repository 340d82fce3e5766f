"""Reading rule files: what a good one gives, and what is said about a bad one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kbh_lint.base import paths
from kbh_lint.rules import RuleError, check_twins, is_selected, load_rule, load_rules, parse_rule, unknown_words
from kbh_lint.service.one_file import load_rules_once

GOOD = """\
id: KBH101
name: bf16-product
class: fp8-upcast-bf16-gemm
verdict: rubric_leak
severity: error
confidence: high
scope: promise
breaks: fp8-products
summary: The product runs on bf16.
why: |
  Because.
remedy: Use fp8.
references: [run-one]
when:
  fact: product
  where: {engine: bf16}
message: "{where} multiplies {engine}"
examples:
  bad:
    - {name: cast, problem: 01_fp8_gemm, code: "a = 1\\nb = 2\\nc = 3\\n"}
    - {name: alias, code: "a = 1\\nb = 9\\n"}
  good:
    - {name: fp8, of: cast, code: "a = 1\\nb = 4\\nc = 3\\n"}
    - {name: other, code: "a = 1\\nb = 5\\n"}
"""
PATH = "rules/KBH101-bf16-product.yaml"


def test_a_rule_file_gives_its_texts_query_and_examples() -> None:
    rule = parse_rule(GOOD, PATH)
    assert (rule.id, rule.leak_class, rule.breaks, rule.layer) == (
        "KBH101",
        "fp8-upcast-bf16-gemm",
        "fp8-products",
        "source",
    )
    assert rule.why == "Because."
    assert [example.name for example in rule.bad] == ["cast", "alias"]
    assert rule.bad[0].problem == "01_fp8_gemm"
    assert rule.good[0].of == "cast"
    assert rule.when[0].fact == "product"


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("verdict: rubric_leak", "verdict: leak", 4, "`verdict` of the rule must be one of"),
        ("severity: error", "severity: fatal", 5, "`severity`"),
        ("scope: promise", "scope: all", 7, "any, promise"),
        ("name: bf16-product", "name: other", 2, "but the file is called KBH101-bf16-product.yaml"),
        ("class: fp8-upcast-bf16-gemm", "class: FP8 Upcast", 3, "lower-case words"),
        ("breaks: fp8-products", "kernelbench: [casts]", 8, "`casts` is not a check of KernelBench"),
        ("summary: The product runs on bf16.", "summary: ''", 9, "`summary` of the rule must be text"),
        ("summary: The product runs on bf16.", "sumary: x", 1, "the rule needs `summary`"),
        ("references: [run-one]", "references: [[1]]", 13, "list of texts"),
        ("confidence: high", "confidence: high\nconfidence: low", 7, "stands twice (first on line 6)"),
        ("remedy: Use fp8.", "remedy: [", 14, "not valid YAML"),
        ("  fact: product\n", "  fct: product\n", 15, "the query needs `fact`"),
        ("  where: {engine: bf16}", "  were: {a: bf16}", 16, "the query has no key `were`"),
        ("  where: {engine: bf16}", "  where: {a: {greater: 3}}", 16, "`greater` is not an operator"),
        ("  where: {engine: bf16}", "  where: {engine: {ge: many}}", 16, "`ge` for `engine` must be a number"),
        ("  where: {engine: bf16}", "  where: {a: []}", 16, "at least one"),
        ("  where: {engine: bf16}", "  same: [a]", 16, "belongs inside"),
        ("  where: {engine: bf16}", "  shapes: most", 16, "any, some, every"),
        ("  fact: product\n", "  fact: prodct\n", 14, "`prodct` is not a kind of fact"),
        ("  where: {engine: bf16}", "  where: {engin: bf16}", 14, "has no attribute `engin`"),
        ("  where: {engine: bf16}", "  also: [{fact: arch, same: [tag]}]", 14, "which the outer fact does not have"),
        (
            "  where: {engine: bf16}",
            "  unless: [{fact: arch, where: {tags: 1}}]",
            14,
            "a fact `arch` has no attribute `tags`",
        ),
        ("{where} multiplies", "{were} multiplies", 17, "fills in `were`"),
        ("when:\n  fact: product\n  where: {engine: bf16}\n", "", 1, "the rule needs `when`"),
        ("of: cast", "of: cats", 23, "names no bad example"),
        ('    - {name: other, code: "a = 1\\nb = 5\\n"}\n', "", 23, "at least two good examples"),
        ("name: alias", "name: cast", 21, "two bad examples are called `cast`"),
        ("scope: promise", "scope: promise\ncolour: red", 8, "the rule has no key `colour`"),
    ],
)
def test_a_mistake_in_a_rule_is_one_sentence_with_file_and_line(old: str, new: str, line: int, words: str) -> None:
    assert old in GOOD
    with pytest.raises(RuleError) as caught:
        parse_rule(GOOD.replace(old, new, 1), PATH)
    assert str(caught.value).startswith(f"{PATH}:{line}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_example_far_from_every_good_one_is_refused() -> None:
    lines = "".join(f"x{n} = {n}\\n" for n in range(7))
    rule = parse_rule(GOOD.replace("a = 1\\nb = 9\\n", lines), PATH)
    with pytest.raises(RuleError, match="`alias` differs from its nearest good twin by 7 lines"):
        check_twins(rule)
    check_twins(parse_rule(GOOD, PATH))


def test_a_bad_example_equal_to_a_good_one_is_refused() -> None:
    rule = parse_rule(GOOD.replace("b = 9", "b = 5"), PATH)
    with pytest.raises(RuleError, match="`alias` is the same as a good one"):
        check_twins(rule)


def test_two_rules_may_not_share_an_id(tmp_path: Path) -> None:
    (tmp_path / "KBH101-bf16-product.yaml").write_text(GOOD)
    (tmp_path / "KBH101-other.yaml").write_text(GOOD.replace("name: bf16-product", "name: other"))
    with pytest.raises(RuleError, match="`KBH101` is also used by"):
        load_rules(tmp_path)


def test_a_missing_folder_of_rules_and_a_binary_rule_are_told(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="no such folder"):
        load_rules(tmp_path / "none")
    (tmp_path / "KBH101-x.yaml").write_bytes(b"\xff\xff")
    with pytest.raises(RuleError, match="not UTF-8"):
        load_rules(tmp_path)


def test_a_rule_that_nests_without_end_is_refused() -> None:
    deep = GOOD.replace("  where: {engine: bf16}", f"  where: {'{a: ' * 100}1{'}' * 100}")
    with pytest.raises(RuleError, match="levels"):
        parse_rule(deep, PATH)


@pytest.mark.parametrize("word", ["KBH101", "KBH1", "KBH", "bf16-product", "fp8-upcast-bf16-gemm"])
def test_ids_prefixes_names_and_classes_choose_a_rule(word: str) -> None:
    rule = parse_rule(GOOD, PATH)
    assert is_selected(rule.id, rule.leak_class, (word,), (), rule.name)
    assert not is_selected(rule.id, rule.leak_class, (), (word,), rule.name)
    assert unknown_words((word, "KBH2", "nothing"), [rule]) == ["KBH2", "nothing"]


def test_a_message_that_quotes_the_file_is_one_line_of_bounded_length() -> None:
    name = '"one\\nline, and \\u2028 another ' + "x" * 5000 + '"'
    with pytest.raises(RuleError) as caught:
        parse_rule(GOOD.replace("class: fp8-upcast-bf16-gemm", f"class: {name}"), PATH)
    said = str(caught.value)
    assert said.isprintable()
    assert "one line, and another x" in said
    assert len(said) < 1200


def test_rules_read_without_examples_are_the_same_but_for_them() -> None:
    whole, heads = load_rules(paths.rules_dir()), load_rules(paths.rules_dir(), examples=False)
    assert [replace(rule, bad=(), good=()) for rule in whole] == list(heads)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("examples:\n", "examples: \n"),
        ("breaks: fp8-products\n", ""),
        ("why: |\n  Because.\n", 'why: "Because\nexamples:\n"\n'),
    ],
)
def test_examples_are_left_out_wherever_they_stand(tmp_path: Path, old: str, new: str) -> None:
    assert old in GOOD
    path = tmp_path / Path(PATH).name
    path.write_text(GOOD.replace(old, new, 1) + ("breaks: fp8-products\n" if "breaks" in old else ""))
    whole, head = load_rule(path), load_rule(path, examples=False)
    assert replace(whole, bad=(), good=()) == replace(head, bad=(), good=())


def test_a_rule_without_examples_is_refused_also_where_they_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / Path(PATH).name
    path.write_text(GOOD.split("examples:")[0])
    with pytest.raises(RuleError, match="examples"):
        load_rule(path, examples=False)


def test_rules_are_read_again_when_their_files_change(tmp_path: Path) -> None:
    source = next(paths.rules_dir().glob("KBH101-*.yaml"))
    file = tmp_path / source.name
    file.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    (before,) = load_rules_once(str(tmp_path))
    assert load_rules_once(str(tmp_path)) is load_rules_once(str(tmp_path))
    file.write_text(source.read_text(encoding="utf-8").replace(f"severity: {before.severity}", "severity: info"))
    (after,) = load_rules_once(str(tmp_path))
    assert (before.severity, after.severity) == ("error", "info")
