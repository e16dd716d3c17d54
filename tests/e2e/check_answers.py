#!/usr/bin/env python3
"""Holds a server's answers against the OpenAPI document that it serves.

    check_answers.py openapi.json answers.jsonl [--every-operation]

Each line of the answers is {"method", "path", "status", "headers", "body"}: the path without its query,
headers by their names in small letters. Prints what is not as documented, a line each and the first of
it, and ends with 1 if that is anything. With --every-operation, documented operations that have not succeeded once are
told, too.
"""

import json
import re
import sys

from jsonschema import Draft202012Validator, RefResolver

MOST_LINES = 30

document = json.load(open(sys.argv[1], encoding="utf-8"))
resolver = RefResolver.from_schema(document)
problems = []
succeeded = set()


def resolved(node):
    while "$ref" in node:
        node = resolver.resolve(node["$ref"])[1]
    return node


def problems_of(schema, value):
    validator = Draft202012Validator(schema, resolver=resolver)
    return [f"{'.'.join(map(str, e.absolute_path)) or 'it'}: {e.message}"
            for e in validator.iter_errors(value)]


def operation_of(method, path):
    """The operation that the document has for a path; fixed segments go before parameters."""
    found = []
    for template, item in document["paths"].items():
        pattern = re.sub(r"\\{[^/]*?\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, path) and method.lower() in item:
            found.append((template.count("{"), item[method.lower()]))
    return min(found, key=lambda pair: pair[0])[1] if found else None


def values_of(kind, body):
    """What is to be checked of a body: the whole, or the data of each event."""
    if kind == "application/json":
        return [json.loads(body)]
    if kind == "text/event-stream":
        events = [block for block in re.split(r"\r?\n\r?\n", body) if block.startswith("data:")]
        data = [event[len("data:"):].strip() for event in events]
        return [json.loads(one) for one in data if one != "[DONE]"]
    return [body]


def check(answer):
    operation = operation_of(answer["method"], answer["path"])
    if operation is None:
        return ["no such operation"]
    response = operation["responses"].get(str(answer["status"]))
    if response is None:
        return ["no such status"]
    if answer["status"] < 300:
        succeeded.add(operation["operationId"])
    response = resolved(response)
    wrong = []
    for name, header in response.get("headers", {}).items():
        header = resolved(header)
        value = answer["headers"].get(name.lower())
        if value is not None:
            wrong += [f"header {name}: {what}" for what in problems_of(header["schema"], value)]
        elif header.get("required"):
            wrong.append(f"header {name} is missing")
    content = response.get("content", {})
    kind = answer["headers"].get("content-type", "").split(";")[0]
    if not content:
        return wrong + (["a body where none is documented"] if answer["body"] else [])
    if kind not in content:
        return wrong + [f"content type {kind!r}, not one of {list(content)}"]
    if "schema" not in content[kind]:
        return wrong
    try:
        values = values_of(kind, answer["body"])
    except ValueError as error:
        return wrong + [f"no JSON: {error}"]
    for value in values:
        wrong += problems_of(content[kind]["schema"], value)
    return wrong


for schema in document["components"]["schemas"].values():
    Draft202012Validator.check_schema(schema)
for line in open(sys.argv[2], encoding="utf-8"):
    answer = json.loads(line)
    for problem in check(answer):
        where = f"{answer['method']} {answer['path']} -> {answer['status']}"
        problems.append(f"{where}: {problem}; the answer was {answer['body'][:500]}")
if "--every-operation" in sys.argv[3:]:
    for item in document["paths"].values():
        for method, operation in item.items():
            if method != "parameters" and operation["operationId"] not in succeeded:
                problems.append(f"{operation['operationId']} has not succeeded")
print("\n".join(problems[:MOST_LINES]))
sys.exit(1 if problems else 0)
