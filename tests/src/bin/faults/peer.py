# What Python makes of bodies: a line of base64 each in, a digest of tool and arguments out.
import base64, hashlib, json, struct, sys


def pairs(members):
    made = dict(members)
    if len(made) != len(members):
        raise ValueError("duplicate key")
    return made


def text(value):
    return value.encode("utf-16-be", "surrogatepass").hex()


def number(value):
    try:
        value = float(value)
    except OverflowError:
        value = float("inf") if value > 0 else float("-inf")
    return struct.pack(">d", 0.0 if value == 0 else value).hex()


def written(value):
    if value is None or value is True or value is False:
        return str(value).lower().replace("none", "null")
    if isinstance(value, str):
        return "s" + text(value)
    if isinstance(value, (int, float)):
        return "d" + number(value)
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return "{" + ",".join(sorted(text(key) + ":" + written(member) for key, member in value.items())) + "}"


for line in sys.stdin:
    try:
        params = json.loads(base64.b64decode(line).decode("utf-8"), object_pairs_hook=pairs)["params"]
        arguments = params.get("arguments")
        whole = written([params["name"], {} if arguments is None else arguments])
        print(hashlib.sha256(whole.encode()).hexdigest())
    except Exception as error:
        print("refused:", str(error).replace("\n", " "))
