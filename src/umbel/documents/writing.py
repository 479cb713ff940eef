"""From a federation to text: what `umbel init` writes and what loads back unchanged."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from umbel.documents.loading import load
from umbel.documents.nodes import resolved
from umbel.model.document import NAME_PATTERN
from umbel.model.federation import API_VERSION, Federation

_TEMPLATE = """\
# A federation: where the hub runs, which sites take part, and who may use it.
# Try it:  umbel plan -f federation.yaml   (changes nothing)
#          umbel up -f federation.yaml
# Every key: umbel schema
apiVersion: umbel.dev/v1alpha1
kind: Federation
metadata:
  name: {name}

spec:
  # The hub: SuperLink behind the gate. Free ports are chosen unless you name them.
  superlink:
    on: local                      # local, ocm or opennebula
    # endpoint: fl.example.org     # the name that sites on other machines dial
    # listen: 0.0.0.0              # the address to listen on; 127.0.0.1 unless said
    # ports: {{fleet: 9092, control: 9093, runtime: 9091}}

  # The sites. A group is on one target: local, ocm, opennebula or join.
  groups:
    - name: local
      on: local
      sites: 3                     # a number, or a list of sites with labels:
      # sites:
      #   - name: berlin
      #     labels: {{gpu: "true", region: eu}}
      #   - name: paris
      #     labels: {{region: eu}}
      # placement:                 # which of the sites are used; all unless said
      #   numberOfClusters: 2
      #   predicates:
      #     - requiredClusterSelector:
      #         labelSelector: {{matchLabels: {{region: eu}}}}
      # data:                      # private data; it never leaves its site
      #   hostPath: /data/ct
      #   nodeConfig: {{batch-size: 32}}

  # How apps are run.
  runtime:
    exec: warm                     # warm: tasks start in milliseconds; fresh: a new process each
    # taskTimeoutSeconds: 3600
    # resources: {{cpu: 1, memory: 4294967296}}   # of one task; no limit unless said
    # wheels: /srv/wheels          # apps' dependencies come from this folder alone

  # Who may use it, besides you: viewer looks, operator runs apps, admin changes.
  # security:
  #   users:
  #     - {{name: ada, role: operator}}
  #   caKey: {{passphraseFile: /run/secrets/ca}}   # encrypts the CA's key at rest
"""


class _Dumper(yaml.SafeDumper):
    """Quotes what any version of YAML would take for something else than text."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Write text, in quotes if it could be read as a number, a boolean or nothing."""
        style = None if isinstance(resolved(text), str) else "'"
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    def represent_mapping(
        self, tag: str, mapping: Any, flow_style: bool | None = None
    ) -> yaml.MappingNode:
        """Write keys; ours named `on` stays bare, though YAML 1.1 takes it for true."""
        node = super().represent_mapping(tag, mapping, flow_style)
        for key, _ in node.value:
            if key.value == "on":
                key.tag = "tag:yaml.org,2002:bool"
        return node


_Dumper.add_representer(str, _Dumper.represent_text)


def _reads_as_text(name: str) -> bool:
    """Whether a name needs no quotes in any version of YAML."""
    bare = re.fullmatch(NAME_PATTERN, name) is not None
    return bare and yaml.dump(name, Dumper=_Dumper).startswith(name)


def commented_template(name: str = "local") -> str:
    """Give a document to start from: short, with every choice explained."""
    text = _TEMPLATE.format(name=name if _reads_as_text(name) else json.dumps(name))
    load(text, source="the new document")
    return text


def default_federation(name: str = "local", sites: int = 3) -> Federation:
    """Give the federation of somebody who wrote no document: local sites, all the same."""
    document = {
        "metadata": {"name": name},
        "spec": {"groups": [{"name": "local", "sites": sites}]},
    }
    return load(json.dumps(document), source="the default federation")


def dump(federation: Federation) -> str:
    """Write a federation as YAML that loads back to the same; defaults are left out."""
    body = federation.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    document = {"apiVersion": API_VERSION, "kind": "Federation", **body}
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**20)
