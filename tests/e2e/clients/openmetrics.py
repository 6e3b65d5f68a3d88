"""Reads a file of metrics with Prometheus' own OpenMetrics parser and prints the families: {name: {"type": …, "samples": n}}.

    openmetrics.py FILE
"""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

with open(sys.argv[1], encoding="utf-8") as file:
    families = text_string_to_metric_families(file.read())
    print(json.dumps({family.name: {"type": family.type, "samples": len(family.samples)} for family in families}))
