//! Checks JSON against a schema, for the keywords that the tests use. It does not use the library that makes grammars.

use serde_json::Value as Json;

/// Returns whether a value matches a schema.
pub(crate) fn fits(value: &Json, schema: &Json, root: &Json) -> bool {
    let Some(schema) = schema.as_object() else { return schema == &Json::Bool(true) };
    schema.iter().all(|(keyword, of)| {
        let each = |schemas: &Json| -> Vec<bool> {
            schemas.as_array().unwrap().iter().map(|schema| fits(value, schema, root)).collect()
        };
        match keyword.as_str() {
            "type" => match of {
                Json::Array(types) => types.iter().any(|name| is_of(value, name)),
                name => is_of(value, name),
            },
            "enum" => of.as_array().unwrap().contains(value),
            "const" => of == value,
            "anyOf" => each(of).contains(&true),
            "allOf" => !each(of).contains(&false),
            "$ref" => {
                let path = of.as_str().unwrap().strip_prefix('#').unwrap();
                fits(value, root.pointer(path).unwrap(), root)
            }
            "minimum" => value.as_f64().is_none_or(|x| x >= of.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|x| x <= of.as_f64().unwrap()),
            "minLength" => value.as_str().is_none_or(|text| text.chars().count() >= count(of)),
            "maxLength" => value.as_str().is_none_or(|text| text.chars().count() <= count(of)),
            "minItems" => value.as_array().is_none_or(|list| list.len() >= count(of)),
            "maxItems" => value.as_array().is_none_or(|list| list.len() <= count(of)),
            "items" => value.as_array().is_none_or(|list| list.iter().all(|item| fits(item, of, root))),
            "required" => value.as_object().is_none_or(|object| {
                of.as_array().unwrap().iter().all(|name| object.contains_key(name.as_str().unwrap()))
            }),
            "properties" | "additionalProperties" => value.as_object().is_none_or(|object| {
                let known = schema.get("properties").and_then(Json::as_object);
                object.iter().all(|(name, value)| match known.and_then(|known| known.get(name)) {
                    Some(own) => fits(value, own, root),
                    None => schema.get("additionalProperties").is_none_or(|more| fits(value, more, root)),
                })
            }),
            "$defs" => true,
            other => panic!("`{other}` is no keyword of the tests"),
        }
    })
}

fn count(of: &Json) -> usize {
    of.as_u64().unwrap() as usize
}

fn is_of(value: &Json, name: &Json) -> bool {
    match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|x| x.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("`{other}` is no type"),
    }
}
