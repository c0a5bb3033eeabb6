"""Names say what is meant: no two classes share one, private ones neither."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_each_class_has_a_name_of_its_own():
    defined = defaultdict(list)
    for file in (*ROOT.glob("softcheck/**/*.py"), *ROOT.glob("oracles/**/*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                defined[node.name].append(str(file.relative_to(ROOT)))
    assert len(defined) > 100
    assert {name: files for name, files in defined.items() if len(files) > 1} == {}
