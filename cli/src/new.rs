//! `bb new`: writes a crate for a backend.

use crate::error::Result;
use crate::out;
use std::process::ExitCode;

pub(crate) fn new(options: &bb_new::New) -> Result<ExitCode> {
    refuse_linked(&options.name.replace('_', "-"))?;
    let folder = options.write()?;
    out::line(bb_new::written(&folder))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns an error if this program links a backend or layer with the name, because `bb-new` does not know all of them.
fn refuse_linked(name: &str) -> Result<()> {
    let holder = if bb::Registry::global().entries().any(|backend| backend.name == name) {
        "backend"
    } else if bb::LayerRegistration::all().iter().any(|layer| layer.name == name) {
        "layer"
    } else {
        return Ok(());
    };
    Err(bb_new::Error::NameTaken { name: name.to_owned(), holder }.into())
}

#[cfg(test)]
mod tests {
    #[test]
    fn bb_new_knows_all_names_of_this_build() {
        let backends = bb::Registry::global().entries().map(|backend| (backend.name, "backend"));
        let layers = bb::LayerRegistration::all().into_iter().map(|layer| (layer.name, "layer"));
        for (name, holder) in backends.chain(layers) {
            assert_eq!(bb_new::bundled(name), Some(holder), "{name}");
        }
    }

    /// The template of `bb new` has the methods of the table of primitives.
    #[test]
    fn the_template_has_a_method_for_each_primitive() {
        let written = primitives();
        if std::env::var_os("BB_WRITE").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/new/src/template/stubs.txt");
            assert!(std::fs::write(path, &written).is_ok(), "{path} cannot be written");
        }
        assert_eq!(bb_new::STUBS, written, "BB_WRITE=1 writes it");
    }

    /// Returns the Rust type of an operand or a parameter in a backend's method.
    fn written(kind: &str) -> &str {
        match kind {
            "Tensor" => "&Tensor",
            "Optional" => "Option<&Tensor>",
            "Tensors" => "&[&Tensor]",
            "Int" => "i64",
            "Bool" => "bool",
            "Ints" => "&[i64]",
            "Extents" => "&[usize]",
            "Type" => "DataType",
            "Round" => "RoundMode",
            "Data" => "&TensorData",
            other => other,
        }
    }

    fn stub(method: &str, arguments: &[(&str, &str)], output: &str) -> String {
        // The template already has this method.
        if method == "constant" {
            return String::new();
        }
        let output = if output == "Tensors" { "Vec<Tensor>" } else { "Tensor" };
        let list: Vec<String> =
            arguments.iter().map(|(name, kind)| format!("_{name}: {}", written(kind))).collect();
        let name = method.trim_start_matches("r#");
        let head = format!("    fn {method}(&self, {}) -> Result<{output}, Error> {{", list.join(", "));
        // Breaks the line like `cargo fmt`.
        let head = if head.len() <= 100 {
            head
        } else {
            let lines: Vec<String> = list.iter().map(|argument| format!("        {argument},\n")).collect();
            format!("    fn {method}(\n        &self,\n{}    ) -> Result<{output}, Error> {{", lines.concat())
        };
        format!("\n{head}\n        Err(Error::NotWritten(\"{name}\"))\n    }}\n")
    }

    macro_rules! stubs {
        ($( $(#[$doc:meta])*
           $name:ident $since:literal = $method:ident
           ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
           -> $output:ident $({ $($fact:tt)* })?; )*) => {
            /// Returns the stubs of all primitives except `constant`.
            fn primitives() -> String {
                [$( stub(
                    stringify!($method),
                    &[$( (stringify!($input), stringify!($kind)), )* $($( (stringify!($param), stringify!($pkind)), )+)?],
                    stringify!($output),
                ) ),*].concat()
            }
        };
    }

    bb_ir::for_each_primitive!(stubs);
}
