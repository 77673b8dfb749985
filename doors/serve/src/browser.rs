//! Refuses requests of web pages. A page from any server can send requests to this machine. If the page's host name resolves to this
//! machine (DNS rebinding), the page can even read the answers.
//!
//! If the server requires a token, these checks are not needed, because no page has the token.

use crate::config::Config;
use crate::refusal::Refusal;
use axum::http::{HeaderMap, Method, Uri, header, uri::Authority};
use std::net::{IpAddr, SocketAddr};

/// The hosts and web pages whose requests are answered.
#[derive(Debug)]
pub(crate) struct Browsers {
    /// Whether all pages and hosts are allowed, because requests must have a token.
    open: bool,
    /// The additional host names that requests may address, and whose pages may send requests.
    allowed: Vec<String>,
}

impl Browsers {
    pub(crate) fn new(config: &Config) -> Browsers {
        let allowed = config.allow_hosts.iter().map(|host| named(host).to_ascii_lowercase()).collect();
        Browsers { open: config.token.is_some(), allowed }
    }

    /// Refuses a request of a web page that is not allowed. If the server listens only on this machine, also refuses a request that
    /// addresses another host.
    ///
    /// # Errors
    ///
    /// [`Refusal::Host`], [`Refusal::Page`] and [`Refusal::Form`].
    pub(crate) fn check(
        &self,
        listens: SocketAddr,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        if self.open {
            return Ok(());
        }
        let hosts = || {
            let given = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or("no text"));
            uri.authority().map(Authority::as_str).into_iter().chain(given)
        };
        if listens.ip().to_canonical().is_loopback() {
            let foreign = hosts().find(|host| !is_loopback(named(host)) && !self.allows(named(host)));
            if let Some(host) = foreign {
                return Err(Refusal::Host { host: crate::refusal::shown(named(host)) });
            }
        }
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("no text"));
        let (origin, site) = (text("origin"), text("sec-fetch-site"));
        if let Some(origin) = origin {
            let host = origin.split_once("://").map(|(_, host)| host);
            if host.is_some_and(|host| self.allows(named(host))) {
                return Ok(());
            }
            let same = host.is_some_and(|host| hosts().any(|own| own.eq_ignore_ascii_case(host)));
            if !same {
                return Err(Refusal::Page { origin: crate::refusal::shown(host.map_or(origin, named)) });
            }
        }
        match site {
            Some("cross-site" | "same-site") => {
                return Err(Refusal::Page { origin: "of another site".to_owned() });
            }
            None if origin.is_none() => return Ok(()),
            _ => {}
        }
        // Browsers send requests with these content types to other hosts without a preflight request.
        let simple = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"];
        let kind = text("content-type").and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        match *method == Method::POST && simple.iter().any(|simple| kind.eq_ignore_ascii_case(simple)) {
            true => Err(Refusal::Form { kind: crate::refusal::shown(kind) }),
            false => Ok(()),
        }
    }

    fn allows(&self, host: &str) -> bool {
        self.allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
    }
}

/// Returns the name or address of a host, without the port, the brackets around an address, and the dot at the end of a name.
fn named(host: &str) -> &str {
    if let Some((address, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    let name = match host.rsplit_once(':') {
        // An IPv6 address without brackets contains further colons, so its last part is not a port.
        Some((name, _)) if !name.contains(':') => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

/// Returns whether a host name or address always means this machine.
fn is_loopback(host: &str) -> bool {
    let name = host.to_ascii_lowercase();
    let address = name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
    address || name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::token::Token;

    const LOOPBACK: &str = "127.0.0.1:8000";

    fn check(
        allow: &[&str],
        listens: &str,
        method: Method,
        uri: &str,
        headers: &[(&str, &str)],
    ) -> &'static str {
        let allow_hosts = allow.iter().map(|host| (*host).to_owned()).collect();
        let config = Config { allow_hosts, ..Config::default() };
        checked(&config, listens, method, uri, headers)
    }

    fn checked(
        config: &Config,
        listens: &str,
        method: Method,
        uri: &str,
        headers: &[(&str, &str)],
    ) -> &'static str {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(header::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        let checked =
            Browsers::new(config).check(listens.parse().unwrap(), &method, &uri.parse().unwrap(), &map);
        match checked {
            Ok(()) => "ok",
            Err(Refusal::Host { .. }) => "host",
            Err(Refusal::Page { .. }) => "page",
            Err(Refusal::Form { .. }) => "form",
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn hosts_are_names_of_this_machine_where_only_it_is_listened_on() {
        for (host, expected) in [
            ("127.0.0.1:8000", "ok"),
            ("127.9.9.9", "ok"),
            ("localhost", "ok"),
            ("LOCALHOST:1", "ok"),
            ("localhost.", "ok"),
            ("a.localhost:8000", "ok"),
            ("[::1]:8000", "ok"),
            ("[::ffff:127.0.0.1]", "ok"),
            ("evil.example", "host"),
            ("evil.example:8000", "host"),
            ("localhost.evil.example", "host"),
            ("127.0.0.1.evil.example", "host"),
            ("evillocalhost", "host"),
            ("10.0.0.1", "host"),
            ("0.0.0.0:8000", "host"),
            ("[2001:db8::1]", "host"),
            ("", "host"),
        ] {
            let with = |headers: &[(&str, &str)]| check(&[], LOOPBACK, Method::GET, "/v2", headers);
            assert_eq!(with(&[("host", host)]), expected, "{host}");
            assert_eq!(check(&[], "[::1]:8000", Method::GET, "/v2", &[("host", host)]), expected, "{host}");
            assert_eq!(check(&[], "0.0.0.0:8000", Method::GET, "/v2", &[("host", host)]), "ok", "{host}");
        }
        assert_eq!(check(&[], LOOPBACK, Method::GET, "/v2", &[]), "ok");
        // Several `Host` headers, and a host in the request target, as in requests of HTTP/2 and proxies.
        let twice = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(check(&[], LOOPBACK, Method::GET, "/v2", &twice), "host");
        assert_eq!(
            check(&[], LOOPBACK, Method::GET, "http://evil.example/v2", &[("host", "localhost")]),
            "host"
        );
        assert_eq!(check(&["EVIL.example"], LOOPBACK, Method::GET, "/", &[("host", "evil.example:1")]), "ok");
    }

    #[test]
    fn pages_of_others_are_refused_wherever_the_server_listens() {
        let host = ("host", "localhost:8000");
        for listens in [LOOPBACK, "0.0.0.0:8000"] {
            for (headers, expected) in [
                (vec![("origin", "http://evil.example")], "page"),
                (vec![("origin", "null")], "page"),
                (vec![("origin", "http://localhost:3000")], "page"),
                (vec![("origin", "http://localhost:8000")], "ok"),
                (vec![("sec-fetch-site", "cross-site")], "page"),
                (vec![("sec-fetch-site", "same-site")], "page"),
                (vec![("sec-fetch-site", "none")], "ok"),
                (vec![("sec-fetch-site", "same-origin"), ("origin", "http://localhost:8000")], "ok"),
                (vec![("origin", "https://ui.example:444"), ("sec-fetch-site", "cross-site")], "ok"),
            ] {
                let headers = [vec![host], headers].concat();
                let found = check(&["ui.example"], listens, Method::POST, "/v2", &headers);
                assert_eq!(found, expected, "{headers:?}");
            }
        }
        let config = Config { token: Some(Token::new("x").unwrap()), ..Config::default() };
        let headers = [("host", "evil.example"), ("origin", "http://evil.example")];
        assert_eq!(checked(&config, LOOPBACK, Method::POST, "/v2", &headers), "ok", "a page has no token");
    }

    #[test]
    fn browsers_send_no_forms_and_programs_may() {
        let form = ("content-type", "text/plain; charset=utf-8");
        let (host, none) = (("host", "localhost"), ("sec-fetch-site", "none"));
        assert_eq!(check(&[], LOOPBACK, Method::POST, "/", &[host, form, none]), "form");
        let own = ("origin", "http://localhost");
        assert_eq!(check(&[], LOOPBACK, Method::POST, "/", &[host, form, own]), "form");
        assert_eq!(check(&[], LOOPBACK, Method::POST, "/", &[host, form]), "ok", "curl sends forms");
        let json = ("content-type", "application/json");
        assert_eq!(check(&[], LOOPBACK, Method::POST, "/", &[host, json, none]), "ok");
    }
}
