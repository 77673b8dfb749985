//! The log, which has a line for each request.

use crate::metrics::ServerMetrics;
use bb_ir::text::{shown, within};
use std::io::Write;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The maximum number of lines that wait to be written. Further lines are dropped and counted, because a request never waits for the log.
const WAITING: usize = 1024;

/// The maximum number of characters of a request path in a line.
const PATH: usize = 512;

/// The maximum number of characters of a warning, which has a part for each input of the model.
const WARNING: usize = 1024;

/// A writer that receives a line for each request.
#[derive(Clone)]
pub struct RequestLog(Arc<Mutex<Option<Box<dyn Write + Send>>>>);

impl RequestLog {
    /// Creates a log that writes lines to a file, a stream or any other writer. The writer may block, because a separate thread calls it.
    pub fn new(to: impl Write + Send + 'static) -> RequestLog {
        RequestLog(Arc::new(Mutex::new(Some(Box::new(to)))))
    }

    /// Starts the thread that writes. A log has one writer: if a second server uses the same log, its lines are lost.
    pub(crate) fn start(&self) -> std::io::Result<LogLines> {
        let to = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (lines, from) = sync_channel(WAITING);
        std::thread::Builder::new().name("bb-log".to_owned()).spawn(move || write(to, &from))?;
        Ok(LogLines(lines))
    }
}

impl std::fmt::Debug for RequestLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RequestLog")
    }
}

fn write(to: Option<Box<dyn Write + Send>>, from: &Receiver<String>) {
    let Some(mut to) = to else { return };
    while let Ok(line) = from.recv() {
        // If a line cannot be written, it is lost and the server continues.
        let _lost = to.write_all(line.as_bytes());
        for line in from.try_iter() {
            let _lost = to.write_all(line.as_bytes());
        }
        let _lost = to.flush();
    }
}

/// The sender of lines to the writing thread.
#[derive(Clone)]
pub(crate) struct LogLines(SyncSender<String>);

/// Notes about a request. The code that reads the request's body adds them.
#[derive(Debug, Default)]
pub(crate) struct Noted(Mutex<Notes>);

/// The model of a request, the request's id, and the declarations of the model that are false for its inputs.
#[derive(Debug, Default)]
struct Notes {
    model: Option<String>,
    id: Option<String>,
    warning: Option<String>,
}

impl Noted {
    /// Records the model and the id of a request.
    pub(crate) fn note(&self, model: &str, id: Option<&str>) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (noted.model, noted.id) = (Some(model.to_owned()), id.map(|id| shown(id).to_string()));
    }

    /// Records the declarations of the model that are false for the inputs of a request.
    pub(crate) fn warn(&self, warning: &str) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.warning = Some(within(WARNING, warning).to_string());
    }
}

/// The data of a request's log line, which is written when this is dropped.
pub(crate) struct RequestLine {
    pub(crate) to: LogLines,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) start: Instant,
    pub(crate) client: IpAddr,
    pub(crate) protocol: &'static str,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) noted: Arc<Noted>,
    /// The HTTP status or gRPC code. `None` if the client left before the answer.
    pub(crate) status: Option<u32>,
    pub(crate) bytes: usize,
    pub(crate) taken: bool,
}

impl Drop for RequestLine {
    fn drop(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let noted = self.noted.0.lock().unwrap_or_else(PoisonError::into_inner);
        let status = self.status.map_or_else(|| "-".to_owned(), |status| status.to_string());
        let mut line = format!(
            "{} {} {} {} {} status={status} ms={:.3} bytes={}",
            time(now),
            self.client,
            self.protocol,
            shown(&self.method),
            within(PATH, &self.path),
            self.start.elapsed().as_secs_f64() * 1e3,
            self.bytes,
        );
        for (name, value) in [("model", &noted.model), ("id", &noted.id), ("warning", &noted.warning)] {
            if let Some(value) = value {
                line.push_str(&format!(" {name}={value:?}"));
            }
        }
        if !self.taken {
            line.push_str(" gone");
        }
        line.push('\n');
        if self.to.0.try_send(line).is_err() {
            self.metrics.lost_line();
        }
    }
}

/// Formats a time since 1970 as RFC 3339 in UTC.
fn time(since: Duration) -> String {
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Howard Hinnant's `civil_from_days`: years begin in March, so that the leap day is the last day of a year.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        // The expected strings are the output of `date -u -d @N`.
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(time(Duration::from_secs(seconds)), expected);
        }
    }
}
