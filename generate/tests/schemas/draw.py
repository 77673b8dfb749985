"""Random JSON schemas with extreme numbers, and a check of answers by the package `jsonschema`.

    python draw.py make COUNT SEED     writes a schema on each line
    python draw.py check               reads {"schema": text, "answer": text} on each line, and writes those that are not valid

Numbers are read as decimals, so that nothing is rounded. A number that a double does not hold may be in a schema: the program that
makes the answers must refuse it.
"""

import json
import random
import sys
from decimal import Decimal, getcontext

NUMBERS = [
    "0", "-0", "1", "-1", "7", "-20", "300", "0.5", "-2.5", "0.1", "1e3", "1e-7", "-1e-7", "123456.789", "99999999", "1e15", "-1e15",
    "9007199254740991", "-9007199254740991", "9007199254740992", "-9007199254740992", "9007199254740993", "-9007199254740993",
    "9007199254740993.5", "4503599627370497.5", "12345678901234567890", "-1000000000000000001", "9223372036854775807",
    "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "1e19", "-1e19", "1e300", "-1e300", "1e-300", "5e-324",
    "0.1000000000000000055511151231257827", "1.00000000000000000001", "100000000000000000000", "2147483648", "-2147483649",
]
STEPS = ["1", "2", "3", "7", "10", "100", "0.5", "0.01", "0.1", "0.25", "1e3", "97", "4096", "99991", "1e-9", "9007199254740993"]
TEXTS = ["", "a", "é", "a b", "\"\\", "\n\t", "😀", "\u0001", "null", "0"]
NAMES = ["a", "b", "é", "a b", "x\"y", "n\nl", "0"]
PATTERNS = ["^a+$", "b", "^[a-c]{1,3}$", "^(ab|ba)*$", "^\\d{2}$", "^\\w?$"]


class Number(float):
    """A number that is written as it is."""

    def __new__(cls, text):
        number = super().__new__(cls, float(text))
        number.text = text
        return number

    def __repr__(self):
        return self.text


def write(value):
    if isinstance(value, Number):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{write(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    return json.dumps(value)


def number(r):
    if r.random() < 0.5:
        return Number(str(r.randint(-50, 50)))
    return Number(r.choice(NUMBERS))


def value(r, depth=2):
    kind = r.randrange(6 if depth > 0 else 4)
    if kind == 0:
        return r.choice([None, True, False])
    if kind in (1, 2):
        return number(r)
    if kind == 3:
        return r.choice(TEXTS)
    if kind == 4:
        return [value(r, depth - 1) for _ in range(r.randrange(3))]
    return {name: value(r, depth - 1) for name in r.sample(NAMES, r.randrange(3))}


def of_number(r):
    schema = {"type": r.choice(["integer", "number"])}
    bounds = sorted((number(r) for _ in range(2)), key=float)
    if r.random() < 0.7:
        schema[r.choice(["minimum", "exclusiveMinimum"])] = bounds[0]
    if r.random() < 0.7:
        schema[r.choice(["maximum", "exclusiveMaximum"])] = bounds[1]
    if r.random() < 0.3:
        schema["multipleOf"] = Number(r.choice(STEPS))
    return schema


def of_text(r):
    schema = {"type": "string"}
    if r.random() < 0.5:
        schema["maxLength"] = r.choice([0, 1, 3, 6])
    if r.random() < 0.3:
        schema["minLength"] = r.choice([0, 1, 3])
    if r.random() < 0.3:
        schema["pattern"] = r.choice(PATTERNS)
    return schema


def of_list(r, depth):
    schema = {"type": "array", "maxItems": r.choice([0, 1, 2, 3])}
    if r.random() < 0.8:
        schema["items"] = one(r, depth - 1)
    if r.random() < 0.3:
        schema["prefixItems"] = [one(r, depth - 1) for _ in range(r.randrange(3))]
    if r.random() < 0.3:
        schema["minItems"] = r.choice([0, 1, 2])
    return schema


def of_object(r, depth):
    names = r.sample(NAMES, r.randrange(4))
    schema = {"type": "object", "properties": {name: one(r, depth - 1) for name in names}}
    if r.random() < 0.7:
        schema["required"] = [name for name in names + r.sample(NAMES, 1) if r.random() < 0.6]
    if r.random() < 0.8:
        schema["additionalProperties"] = r.choice([False, False, False, True, one(r, depth - 1)])
    if r.random() < 0.1:
        schema["patternProperties"] = {r.choice(PATTERNS): one(r, depth - 1)}
    if r.random() < 0.1:
        schema[r.choice(["minProperties", "maxProperties"])] = r.choice([0, 1, 2])
    return schema


def one(r, depth=3):
    kind = r.randrange(12 if depth > 0 else 6)
    if kind == 0:
        return {"const": value(r)}
    if kind == 1:
        return {"enum": [value(r) for _ in range(r.randrange(1, 4))]}
    if kind in (2, 3):
        return of_number(r)
    if kind == 4:
        return of_text(r)
    if kind == 5:
        return {"type": r.choice(["null", "boolean"])}
    if kind in (6, 7):
        return of_object(r, depth)
    if kind == 8:
        return of_list(r, depth)
    if kind == 9:
        return {r.choice(["anyOf", "oneOf"]): [one(r, depth - 1) for _ in range(r.randrange(1, 4))]}
    if kind == 10:
        return {"allOf": [one(r, depth - 1) for _ in range(r.randrange(1, 3))]}
    return {**of_object(r, depth), r.choice(["anyOf", "allOf"]): [of_object(r, depth - 1) for _ in range(2)]}


def make(count, seed):
    r = random.Random(seed)
    for _ in range(count):
        schema = one(r)
        if r.random() < 0.1:
            schema = {"$defs": {"d": one(r, 2)}, **schema}
            schema.setdefault("properties", {})["r"] = {"$ref": "#/$defs/d"}
        print(write(schema))


def check():
    import jsonschema

    # No schema has a bound beyond this power of ten. Remainders need all digits of the largest numbers.
    most = 9999
    getcontext().prec = 3 * most

    def number(text):
        mantissa, _, exponent = text.lower().partition("e")
        return Decimal(f"{mantissa}e{max(-most, min(most, int(exponent or 0)))}")

    def read(text):
        return json.loads(text, parse_float=number)

    wrong = 0
    for line in sys.stdin:
        pair = json.loads(line)
        try:
            # The order and the number of names matter: an object with a name twice is not what the schema describes.
            validator = jsonschema.Draft202012Validator(read(pair["schema"]))
            error = next(iter(validator.iter_errors(read(pair["answer"]))), None)
        except ValueError as problem:
            error = problem
        if error is not None:
            wrong += 1
            print(json.dumps({**pair, "error": str(error)[:200]}))
    return wrong


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(int(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(1 if check() else 0)
