"""The policy file's schema, for editors and other tools."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from tokenweir.config.schema import PolicyFile


class _PolicyJsonSchema(GenerateJsonSchema):
    """Leaves out what an author of policies does not need, and null: see `document`."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """Return the schema of what is not null."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Return the schema, without a default that is null."""
        if schema.get("default") is None and "default_factory" not in schema:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 -- as in the base
        """Leave titles out: they repeat the names."""
        return False


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the policy file."""
    schema = PolicyFile.model_json_schema(schema_generator=_PolicyJsonSchema)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        **schema,
        "title": "Tokenweir policy",
    }
