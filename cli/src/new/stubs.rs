//! The methods of the primitives, not yet written, from their table.

/// Writes the type of an operand or a parameter as authors write it.
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
    // The template of the crate has this method.
    if method == "constant" {
        return String::new();
    }
    let output = if output == "Tensors" { "Vec<Tensor>" } else { "Tensor" };
    let list: Vec<String> =
        arguments.iter().map(|(name, kind)| format!("_{name}: {}", written(kind))).collect();
    let name = method.trim_start_matches("r#");
    let head = format!("    fn {method}(&self, {}) -> Result<{output}, Error> {{", list.join(", "));
    // As `cargo fmt` has it.
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
        /// Returns all of them but `constant`.
        pub(super) fn primitives() -> String {
            [$( stub(
                stringify!($method),
                &[$( (stringify!($input), stringify!($kind)), )* $($( (stringify!($param), stringify!($pkind)), )+)?],
                stringify!($output),
            ) ),*].concat()
        }
    };
}

bb_ir::for_each_primitive!(stubs);
