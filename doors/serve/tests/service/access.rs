//! Tests access by token and through encrypted connections, and the request log.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use crate::common;

use bb_serve::protocol::{ModelReadyRequest, ServerReadyRequest};
use bb_serve::{Error, RequestLog, Server, TlsFiles, Token};
use common::*;
use serde_json::json;
use tonic::Code;

fn with_token() -> Server {
    let mut config = config(vec![made("double", &double())]);
    config.token = Some(Token::new("s3cret").unwrap());
    Server::start(config).unwrap()
}

#[test]
fn without_the_token_only_health_is_answered() {
    let server = with_token();
    let to = server.http();
    for path in ["/v2/health/live", "/v2/health/ready"] {
        assert_eq!(get(to, path).status, 200);
    }
    let ask = |path: &str, header: &str| {
        raw(
            to,
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}\r\n").as_bytes(),
        )
        .unwrap()
    };
    for path in ["/v2", "/v2/models/double", "/metrics", "/nothing", "/v2/models/stats"] {
        for wrong in [
            "",
            "authorization: Bearer s3crez\r\n",
            "authorization: Bearer s3cre\r\n",
            "authorization: Bearer s3cretx\r\n",
            "authorization: Bearer \r\n",
            "authorization: Basic s3cret\r\n",
            "authorization: s3cret\r\n",
        ] {
            let answer = ask(path, wrong);
            assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{wrong}");
            assert!(!answer.text().contains("s3cret"), "{}", answer.text());
        }
        assert_ne!(ask(path, "authorization: bearer s3cret\r\n").status, 401);
    }
    let body = json!({"inputs": []}).to_string();
    let refused =
        raw(to, &request("/v2/models/double/infer", &[("connection", "close")], body.as_bytes())).unwrap();
    assert_eq!(refused.status, 401);
    by_grpc(&server, async |mut client| {
        assert!(client.server_ready(ServerReadyRequest {}).await.unwrap().into_inner().ready);
        let ask =
            || tonic::Request::new(ModelReadyRequest { name: "double".to_owned(), version: String::new() });
        assert_eq!(client.model_ready(ask()).await.unwrap_err().code(), Code::Unauthenticated);
        let mut allowed = ask();
        allowed.metadata_mut().insert("authorization", "Bearer s3cret".parse().unwrap());
        assert!(client.model_ready(allowed).await.unwrap().into_inner().ready);
    });
    assert!(!format!("{:?}", Token::new("s3cret").unwrap()).contains("s3cret"));
    for wrong in ["", "a b", "ä", "a\n", &"a".repeat(5000)] {
        assert!(matches!(Token::new(wrong), Err(Error::Token)));
    }
}

/// Sends a request with these header lines.
fn from(to: std::net::SocketAddr, first: &str, lines: &[&str]) -> Answer {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    raw(
        to,
        format!("{first} HTTP/1.1\r\n{lines}content-length: 2\r\nconnection: close\r\n\r\n{{}}").as_bytes(),
    )
    .unwrap()
}

#[test]
fn pages_of_browsers_and_requests_for_other_hosts_are_refused() {
    let start = |change: fn(&mut bb_serve::Config)| {
        let mut config = config(vec![made("double", &double())]);
        change(&mut config);
        Server::start(config).unwrap()
    };
    let server = start(|_| ());
    let paths = [
        "GET /v2/health/live",
        "GET /metrics",
        "GET /v2/models/double",
        "POST /v2/models/double/infer",
        "POST /v2/repository/models/double/unload",
        "GET /nothing",
    ];
    for path in paths {
        for (lines, says) in [
            (vec!["host: evil.example"], "`--allow-host evil.example`"),
            (vec!["host: evil.example:8000"], "`--allow-host evil.example`"),
            (vec!["host: localhost", "origin: http://evil.example"], "`--allow-host NAME`"),
            (vec!["host: localhost", "sec-fetch-site: cross-site"], "`--allow-host NAME`"),
            (vec!["host: localhost", "sec-fetch-site: same-site"], "`--allow-host NAME`"),
        ] {
            let answer = from(server.http(), path, &lines);
            assert_eq!(answer.status, 403, "{path} {lines:?}: {}", answer.text());
            assert!(
                answer.json()["error"].as_str().unwrap().contains(says),
                "{path} {lines:?}: {}",
                answer.text()
            );
        }
        for lines in [["host: localhost"], ["host: 127.0.0.1:8000"], ["host: [::1]"]] {
            let text = from(server.http(), path, &lines).text();
            assert!(!text.contains("--allow-host"), "{path} {lines:?}: {text}");
        }
    }
    let form = ["host: localhost", "origin: http://localhost", "content-type: text/plain"];
    assert_eq!(from(server.http(), "POST /v2/models/double/infer", &form).status, 403);
    // Sends the headers that curl sends by default, without any header of a browser.
    let curl = ["host: localhost", "content-type: application/x-www-form-urlencoded"];
    assert_eq!(from(server.http(), "POST /v2/models/double/infer", &curl).status, 400);
    assert!(metric(&server, "bb_other_requests_total{protocol=\"http\",outcome=\"invalid\"}") >= 31.0);
    let grpc = |server: &Server, host: &str, origin: Option<&'static str>| {
        let to = format!("http://{}", server.grpc());
        let host: axum::http::Uri = format!("http://{host}").parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let endpoint = tonic::transport::Endpoint::from_shared(to).unwrap().origin(host);
            let mut client = Client::new(endpoint.connect().await.unwrap());
            let mut request = tonic::Request::new(ServerReadyRequest {});
            if let Some(origin) = origin {
                request.metadata_mut().insert("origin", origin.parse().unwrap());
            }
            client
                .server_ready(request)
                .await
                .map(|answer| answer.into_inner().ready)
                .map_err(|status| status.code())
        })
    };
    assert_eq!(grpc(&server, "localhost:8001", None), Ok(true));
    assert_eq!(grpc(&server, "evil.example", None), Err(Code::PermissionDenied));
    assert_eq!(grpc(&server, "localhost", Some("http://evil.example")), Err(Code::PermissionDenied));
    let allowing = start(|config| config.allow_hosts = vec!["ui.example".to_owned()]);
    let page = ["host: ui.example", "origin: https://ui.example", "sec-fetch-site: same-origin"];
    assert_eq!(from(allowing.http(), "GET /v2/models/double", &page).status, 200);
    assert_eq!(grpc(&allowing, "ui.example", Some("https://ui.example")), Ok(true));
    assert_eq!(from(allowing.http(), "GET /v2", &["host: evil.example"]).status, 403);
    // The host check is off for an address that others can reach, because the server does not know all its names.
    let open = start(|config| config.http = std::net::SocketAddr::from(([0, 0, 0, 0], 0)));
    let to = std::net::SocketAddr::from(([127, 0, 0, 1], open.http().port()));
    assert_eq!(from(to, "GET /v2", &["host: models.example"]).status, 200);
    assert_eq!(from(to, "GET /v2", &["host: models.example", "origin: http://evil.example"]).status, 403);
    let with_token = with_token();
    let page = ["host: evil.example", "origin: http://evil.example", "authorization: Bearer s3cret"];
    assert_eq!(from(with_token.http(), "GET /v2", &page).status, 200);
    assert_eq!(from(with_token.http(), "GET /v2", &page[..2]).status, 401);
}

#[test]
fn each_request_is_a_line_of_the_log() {
    let lines = Lines::default();
    let mut config = config(vec![made("double", &double())]);
    config.log = Some(RequestLog::new(lines.clone()));
    let server = Server::start(config).unwrap();
    let x = json!({"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]});
    let body = json!({"id": "7\n\u{1b}[2J", "inputs": [x]});
    let length = post(server.http(), "/v2/models/double/infer", &body).body.len();
    get(server.http(), &format!("/v2/%0anew{}", "x".repeat(3000)));
    by_grpc(&server, async |mut client| {
        let ask = ModelReadyRequest { name: "none".to_owned(), version: String::new() };
        client.model_ready(ask).await.unwrap();
        client.model_infer(bb_serve::protocol::ModelInferRequest::default()).await.unwrap_err();
    });
    let text = lines.wait(4);
    let all: Vec<&str> = text.lines().collect();
    assert_eq!(all.len(), 4, "{text}");
    assert!(all[0].contains(" 127.0.0.1 http POST /v2/models/double/infer status=200 ms="), "{}", all[0]);
    assert!(all[0].contains(&format!(" bytes={length} model=\"double\" id=\"7")), "{}", all[0]);
    assert!(
        all[1].contains("/v2/%0anew") && all[1].contains("status=404") && all[1].len() < 700,
        "{}",
        all[1]
    );
    assert!(all[2].contains("grpc POST /inference.GRPCInferenceService/ModelReady status=0"), "{}", all[2]);
    assert!(all[3].contains("/ModelInfer status=5 "), "{}", all[3]);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
}

#[test]
fn false_files_of_encryption_are_refused_at_start() {
    let mut config = config(vec![made("double", &double())]);
    config.tls = Some(TlsFiles { certificate: "none".into(), key: "none".into() });
    let error = Server::start(config).unwrap_err();
    let expected = if cfg!(feature = "tls") { "`none`" } else { "without the feature `tls`" };
    assert!(error.to_string().contains(expected), "{error}");
}

#[cfg(feature = "tls")]
mod encrypted {
    use super::*;
    use std::io::Write;
    use std::io::{BufReader, Read};
    use std::net::TcpStream;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto};

    fn data(file: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file)
    }

    fn client(to: std::net::SocketAddr, protocol: &[u8]) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(data("certificate.pem")).unwrap()).unwrap();
        let provider = Arc::new(crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        StreamOwned::new(connection, stream)
    }

    fn encrypted(change: impl FnOnce(&mut bb_serve::Config)) -> Server {
        let mut config = config(vec![made("double", &double())]);
        config.tls = Some(TlsFiles { certificate: data("certificate.pem"), key: data("key.pem") });
        change(&mut config);
        Server::start(config).unwrap()
    }

    #[test]
    fn both_protocols_are_encrypted() {
        let server = encrypted(|_| ());
        let n = 300_000;
        let x = json!({"name": "x", "datatype": "FP32", "shape": [1, n], "data": vec![1; n]});
        let mut stream = client(server.http(), b"http/1.1");
        let body = json!({"inputs": [x]}).to_string();
        stream.write_all(&request("/v2/models/double/infer", &[], body.as_bytes())).unwrap();
        let answer = read(&mut BufReader::new(&mut stream)).unwrap();
        assert_eq!(answer.json()["outputs"][0]["data"], json!(vec![2.0; n]));
        // Sends the HTTP/2 preface and empty settings. The server answers with its settings (frame type 4).
        let mut stream = client(server.grpc(), b"h2");
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        assert_eq!((head[3], stream.conn.alpn_protocol()), (4, Some(b"h2".as_slice())));
        // A client that does not use TLS gets no answer, and the server continues.
        assert!(raw(server.http(), b"GET /v2 HTTP/1.1\r\nhost: localhost\r\n\r\n").is_none());
        assert!(server.shut_down().finished);
    }

    #[test]
    fn who_does_not_shake_hands_is_let_go() {
        let server = encrypted(|config| config.timeout = Duration::from_millis(400));
        let start = Instant::now();
        for to in [server.http(), server.grpc()] {
            let mut silent = TcpStream::connect(to).unwrap();
            silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            assert!(matches!(silent.read(&mut [0; 1]), Ok(0) | Err(_)));
        }
        let mut shaken = client(server.grpc(), b"h2");
        shaken.flush().unwrap();
        assert!(matches!(shaken.read(&mut [0; 1]), Ok(0) | Err(_)));
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
}
