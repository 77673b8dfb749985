//! The options of a session for the provider.

use crate::api::Result;
use crate::error::PluginError;
use bb::coverage::ClaimOptions;
use bb::{Limits, OpenOptions};
use bb_core::ir::text::{BOOL_FORM, parse_bool};
use std::path::PathBuf;

/// The name of ONNX Runtime's option for nodes of the operator `EPContext`, which contain compiled parts.
const COMPILED_MODELS: &str = "ep.context_enable";

/// The prefix of options that set limits.
pub(crate) const LIMITS: &str = "limits.";

/// The settings of a session for the provider.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// The name of the backend, as for `bb::backend`. `None` means the exported backend.
    pub(crate) backend: Option<String>,
    pub(crate) open: OpenOptions,
    pub(crate) claim: ClaimOptions,
    pub(crate) limits: Limits,
    /// The file that receives a line of JSON for each graph.
    pub(crate) report: Option<PathBuf>,
}

impl Settings {
    /// Parses the entries of a session's configuration that begin with `ep.NAME.`.
    ///
    /// Options that the plugin does not define are passed to the backend, which refuses unknown options.
    pub(crate) fn read(provider: &str, entries: Vec<(String, String)>) -> Result<Settings> {
        let prefix = format!("ep.{}.", provider.to_lowercase());
        let mut settings = Settings::default();
        for (key, value) in entries {
            if key == COMPILED_MODELS && truth(&key, &value)? {
                return Err(wrong(&key, "`0`, because this provider writes no compiled models", &value));
            }
            let own = key.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(&prefix));
            if own {
                let option = key.get(prefix.len()..).unwrap_or_default();
                if option.is_empty() {
                    return Err(PluginError::Unnamed { key });
                }
                settings.set(option, value)?;
            }
        }
        Ok(settings)
    }

    fn set(&mut self, option: &str, value: String) -> Result<()> {
        match option {
            "backend" => self.backend = Some(value),
            "host" => self.claim = self.claim.with_host(truth(option, &value)?),
            "native_only" => self.claim = self.claim.with_native_only(truth(option, &value)?),
            "report" => {
                let path = PathBuf::from(value);
                // Opens the file now, so that the session that names it fails if the file cannot be written.
                crate::claim::append(&path, "")?;
                self.report = Some(path);
            }
            "narrow_floats" => self.open.narrow_floats = truth(option, &value)?,
            _ if option.starts_with(LIMITS) => {
                let limit = option.get(LIMITS.len()..).unwrap_or_default();
                self.limits.set_for_runs("ONNX Runtime", limit, &value)?;
            }
            _ => self.open = std::mem::take(&mut self.open).with_text(option, &value)?,
        }
        Ok(())
    }
}

fn truth(option: &str, value: &str) -> Result<bool> {
    parse_bool(value).ok_or_else(|| wrong(option, BOOL_FORM, value))
}

fn wrong(option: &str, expected: &'static str, got: &str) -> PluginError {
    PluginError::Option { option: option.to_owned(), expected, got: got.to_owned() }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn read(entries: &[(&str, &str)]) -> Result<Settings> {
        Settings::read(
            "bb-Chip",
            entries.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        )
    }

    #[test]
    fn entries_of_other_providers_are_left_alone() {
        let settings = read(&[("ep.other.host", "?"), ("session.x", "1"), ("ep.bb-chip.host", "1")]).unwrap();
        assert!(settings.claim.host && !settings.claim.native_only);
    }

    #[test]
    fn what_the_plugin_does_not_know_is_for_the_backend() {
        let settings = read(&[("ep.bb-chip.tile", "64"), ("ep.bb-chip.memory", "2M")]).unwrap();
        assert_eq!(settings.open.own::<usize>("tile").unwrap(), 64);
        assert_eq!(settings.open.memory, Some(2 << 20));
    }

    #[test]
    fn limits_are_set_by_name() {
        let settings = read(&[("ep.bb-chip.limits.value_bytes", "6GiB")]).unwrap();
        assert_eq!(settings.limits.value_bytes, 6 << 30);
        let error = read(&[("ep.bb-chip.limits.value_byte", "1")]).unwrap_err().to_string();
        assert!(error.contains("value_byte`") && error.contains("value_bytes`?"), "{error}");
    }

    #[test]
    fn limits_on_loading_are_refused() {
        for limit in ["nodes", "tensor_bytes", "file_access"] {
            let error = read(&[(&format!("ep.bb-chip.limits.{limit}"), "1")]).unwrap_err();
            assert!(error.to_string().contains("ONNX Runtime"), "{error}");
            assert!(!error.to_string().contains("model_bytes"), "{error}");
        }
    }

    #[test]
    fn an_option_without_a_name_is_refused() {
        let error = read(&[("ep.bb-chip.", "1")]).unwrap_err().to_string();
        assert_eq!(
            error,
            "an option of the session is called `ep.bb-chip.`; expected the name of an option after `ep.bb-chip.`"
        );
    }

    #[test]
    fn compiled_models_are_refused() {
        let error = read(&[("ep.context_enable", "1")]).unwrap_err().to_string();
        assert!(error.contains("`ep.context_enable`") && error.contains("no compiled models"), "{error}");
        assert!(read(&[("ep.context_enable", "0")]).is_ok());
    }

    #[test]
    fn a_wrong_value_is_an_error_that_names_the_option() {
        for (key, value) in [("host", "yes"), ("threads", "0"), ("threads", "two"), ("memory", "much")] {
            let error = read(&[(&format!("ep.bb-chip.{key}"), value)]).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(key) && text.contains(value), "{text}");
        }
    }
}
