"""The federation document: read from text with errors that help, and written back."""

from umbel.documents.loading import load, load_file
from umbel.documents.outline import schema
from umbel.documents.problems import DocumentInvalid, Problem
from umbel.documents.words import slug
from umbel.documents.writing import commented_template, default_federation, dump

__all__ = [
    "DocumentInvalid",
    "Problem",
    "commented_template",
    "default_federation",
    "dump",
    "load",
    "load_file",
    "schema",
    "slug",
]
