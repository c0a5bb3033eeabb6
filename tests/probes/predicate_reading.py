"""Reads predicates over sizes and over shapes, so that a test can ask for which of the tried ones they hold."""

import re


def sizes_that(words, tried, failing):
    """The tried sizes of which the words are true, by reading them; words that a list cut short are taken for true."""
    return [n for n in tried if any(holds(part, n, failing) for part in words.split(" or "))]


def holds(words, n, failing):
    if words.startswith("all N tried"):
        return str(n) not in re.findall("[0-9]+", words)
    if words.startswith("N = "):
        return str(n) in words.removeprefix("N = ").split(", ")
    if words.startswith("N in "):
        listed, _, more = words.removeprefix("N in ").partition(" and ")
        bounds = [tuple(map(int, run.split("-"))) for run in listed.split(", ")]
        beyond = more and n > bounds[-1][-1] and n in failing
        return beyond or any(low[0] <= n <= low[-1] for low in bounds)
    return all(condition(part, n) for part in re.split(" with (?=N)", words))


def condition(words, n):
    parity = re.match("(odd|even) ", words)
    if parity:
        return n % 2 == (parity[1] == "odd") and condition(words.removeprefix(parity[0]), n)
    if words == "N":
        return True
    if words.endswith("a power of two"):
        return (n & (n - 1) == 0) == ("not" not in words)
    if bounds := re.fullmatch("N from ([0-9]+) to ([0-9]+)", words):
        return int(bounds[1]) <= n <= int(bounds[2])
    assert re.fullmatch("N (% [0-9]+ )?(==|!=|<|<=|>|>=) [0-9]+", words), words
    return eval(words, {"N": n})


def shapes_that(words, tried, failing):
    """The tried shapes of which the words are true, by reading them."""
    if words == "all shapes tried":
        return set(tried)
    if words == "rows = columns":
        return {shape for shape in tried if shape.rows == shape.columns}
    if words.startswith("not ("):
        return set(tried) - shapes_that(words[5:-1], tried, set(tried) - set(failing))
    if words.startswith("shapes of no one class"):
        return set(failing)
    if words.startswith("rows x columns = "):
        listed = words.removeprefix("rows x columns = ").split(", ")
        return {shape for shape in tried if str(shape) in listed}
    return {shape for shape in tried if all(_holds(part, shape, failing) for part in _parts(words))}


def _parts(words):
    """The conditions of a conjunction; of each, the measure's name begins it or follows "odd", "even" or "all"."""
    return re.split(" and (?=(?:odd |even |all )?(?:rows|columns|elements))", words)


def _holds(words, shape, failing):
    [symbol] = {name for name in ("rows", "columns", "elements") if name in words}
    words = words.replace(symbol, "N")
    size = getattr(shape, symbol)
    return any(holds(part, size, {getattr(each, symbol) for each in failing}) for part in words.split(" or "))
