//! `bb backends`: lists the linked backends.

use crate::args;
use crate::error::Result;
use crate::{out, render};
use std::process::ExitCode;

pub(crate) fn backends(options: &args::Backends) -> Result<ExitCode> {
    #[cfg(feature = "loaded")]
    crate::loaded::load(&options.load)?;
    let linked = bb::linked_backends()?;
    let mut records = Vec::new();
    let mut table = render::table(["NAME", "VERSION", "OPERATIONS", "TYPES", "OPTIONS", "DEVICES", "STATUS"]);
    for backend in &linked {
        let (opsets, types, status) = match &backend.backend {
            Ok(handle) => {
                let runtime = handle.runtime();
                let mut opsets = vec![runtime.atomic_opset()];
                opsets.extend(runtime.extension_opsets());
                let opsets: Vec<String> = opsets
                    .iter()
                    .map(|o| {
                        format!(
                            "{}: {} operations, {} native",
                            o.family.name(),
                            o.ops.len(),
                            o.ops.iter().filter(|op| op.native).count()
                        )
                    })
                    .collect();
                let types = runtime.capabilities().types;
                let types = if types.is_all() { "all".to_owned() } else { types.to_string() };
                (opsets, types, "available".to_owned())
            }
            Err(error) => (Vec::new(), String::new(), format!("not available: {}", render::chain(error))),
        };
        let lacks = backend.backend.as_ref().is_ok_and(|on| !on.runtime().capabilities().types.is_all());
        let floats = lacks.then_some(bb::OpenOption::NarrowFloats);
        let takes: Vec<bb::OpenOption> = backend.options.iter().copied().chain(floats).collect();
        let names: Vec<&str> = takes.iter().map(|option| option.name()).collect();
        let own = takes.iter().filter_map(|option| option.own()).map(|own| {
            serde_json::json!({
                "name": own.name, "type": own.default.type_name(), "default": own.default.to_string(), "about": own.about,
            })
        });
        let own: Vec<serde_json::Value> = own.collect();
        let devices = match &backend.devices {
            Ok(devices) => {
                devices.iter().map(|d| format!("{}:{} {}", backend.name, d.name, d.description)).collect()
            }
            Err(error) => vec![format!("not available: {}", render::chain(error))],
        };
        records.push(serde_json::json!({
            "name": backend.name, "version": backend.version, "path": backend.path,
            "operations": opsets, "types": types, "options": names, "own_options": own, "devices": devices, "status": status,
        }));
        table.add_lines([
            backend.name.to_owned(),
            backend.version.to_owned(),
            opsets.join("\n"),
            types,
            takes.iter().map(crate::layers::option).collect::<Vec<_>>().join("\n"),
            devices.join("\n"),
            status,
        ]);
    }
    if options.json {
        out::json(&records)?;
    } else {
        out::line(table)?;
        out::line(crate::layers::table())?;
        out::line(crate::layers::combined())?;
    }
    Ok(ExitCode::SUCCESS)
}
