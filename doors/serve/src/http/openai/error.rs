//! Errors in OpenAI's format.

use crate::refusal::{Refusal, RefusalKind};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};

/// A refused request.
pub(in crate::http) struct Refused {
    refusal: Box<Refusal>,
    /// The name of the wrong field in the request.
    param: Option<&'static str>,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        let param = match &refusal {
            Refusal::Field { name, .. } => Some(*name),
            Refusal::UnknownLanguage { .. } => Some("model"),
            Refusal::Prompt { source, .. } => match **source {
                bb_generate::Error::Grammar { .. }
                | bb_generate::Error::GrammarSize { .. }
                | bb_generate::Error::Vocabulary { .. } => Some("response_format"),
                _ => None,
            },
            _ => None,
        };
        Refused { refusal: Box::new(refusal), param }
    }
}

impl Refused {
    pub(super) fn kind(&self) -> RefusalKind {
        self.refusal.kind()
    }

    /// Returns the error as a JSON object.
    pub(super) fn json(&self) -> Json {
        let (kind, code) = match self.refusal.kind() {
            RefusalKind::NoToken => ("invalid_request_error", Some("invalid_api_key")),
            RefusalKind::NotFound if matches!(*self.refusal, Refusal::UnknownLanguage { .. }) => {
                ("invalid_request_error", Some("model_not_found"))
            }
            RefusalKind::Busy => ("rate_limit_error", Some("rate_limit_exceeded")),
            RefusalKind::Deadline => ("server_error", Some("timeout")),
            RefusalKind::Cancelled | RefusalKind::Unavailable => ("server_error", Some("unavailable")),
            RefusalKind::Unsupported | RefusalKind::Failed => ("server_error", None),
            RefusalKind::Invalid if self.is_too_long() => {
                ("invalid_request_error", Some("context_length_exceeded"))
            }
            RefusalKind::Invalid
            | RefusalKind::NotFound
            | RefusalKind::Method
            | RefusalKind::TooLarge
            | RefusalKind::Encoding
            | RefusalKind::Forbidden
            | RefusalKind::Absent => ("invalid_request_error", None),
        };
        json!({ "error": { "message": self.refusal.text(), "type": kind, "param": self.param, "code": code } })
    }

    fn is_too_long(&self) -> bool {
        match &*self.refusal {
            Refusal::Prompt { source, .. } => matches!(**source, bb_generate::Error::Context { .. }),
            _ => false,
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let json = [(header::CONTENT_TYPE, "application/json")];
        let status = super::super::status(self.refusal.kind());
        // OpenAI's interface reports an unsupported field as a bad request.
        let status = if status == StatusCode::NOT_IMPLEMENTED { StatusCode::BAD_REQUEST } else { status };
        let mut response = (status, json, self.json().to_string()).into_response();
        if self.refusal.kind() == RefusalKind::Busy {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.refusal.kind() == RefusalKind::NoToken {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
