//! Requests that were never answered: why, in words, and whether a retry can help.

use std::error::Error;
use std::io;
use std::iter::successors;

use adapters::fault::{Fault, Kind, Patience, Retry};
use rustls::CertificateError;

use super::Upstream;

/// Why no answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransportFailure {
    /// There is no such host name.
    UnknownName,
    /// No name server answered, so that the host name may exist.
    NoNameServer,
    /// Nothing listens at the port.
    ConnectionRefused,
    /// No route leads to the host.
    NoRoute,
    /// The connection was not accepted in time.
    ConnectTimeout,
    /// The proxy that leads to the server is not there, or did not connect to it.
    Proxy,
    /// The server does not speak TLS.
    PlainServer,
    /// The certificate comes from an unknown authority.
    UntrustedCertificate,
    /// The certificate belongs to another server.
    CertificateOfAnother,
    /// The certificate cannot be used for another reason: it has expired, or is one of an
    /// authority.
    BadCertificate,
    /// The server ended the connection before TLS was established.
    TlsClosed,
    /// TLS failed for another reason.
    Tls,
    /// Another failure before the connection was established.
    Connect,
    /// The server does not speak HTTP.
    NoHttp,
    /// The connection ended before an answer.
    Closed,
}

/// The fault of a request that was not answered: its method and address, as a person writes them.
pub(super) fn fault(upstream: &Upstream, request: &str, error: &reqwest::Error) -> Fault {
    let failure = TransportFailure::of(error);
    let (kind, patience) = failure.nature();
    let fault = Fault::new(kind, failure.message(upstream, request));
    Fault {
        retry: patience.map_or(Retry::Never, |_| fault.retry),
        patience: patience.unwrap_or_default(),
        ..fault.caused_by(error_chain(error))
    }
}

impl TransportFailure {
    fn of(error: &reqwest::Error) -> Self {
        let mut source: Option<&(dyn Error + 'static)> = error.source();
        while let Some(cause) = source {
            if let Some(failure) = Self::of_cause(cause) {
                return failure;
            }
            source = cause.source();
        }
        if error.is_timeout() {
            Self::ConnectTimeout
        } else if error.is_connect() {
            Self::Connect
        } else {
            Self::Closed
        }
    }

    fn of_cause(cause: &(dyn Error + 'static)) -> Option<Self> {
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return Some(Self::of_tls(tls));
        }
        if let Some(http) = cause.downcast_ref::<hyper::Error>() {
            return http.is_parse().then_some(Self::NoHttp);
        }
        // The types of these errors are private.
        let text = cause.to_string();
        if text == "dns error" {
            return Some(Self::of_lookup(cause));
        }
        if text.starts_with("tunnel error") {
            return Some(Self::Proxy);
        }
        let io = cause.downcast_ref::<io::Error>()?;
        // An error inside an I/O error is not its source.
        if let Some(failure) = io.get_ref().and_then(|inner| Self::of_cause(inner)) {
            return Some(failure);
        }
        match io.kind() {
            io::ErrorKind::ConnectionRefused => Some(Self::ConnectionRefused),
            io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
                Some(Self::NoRoute)
            }
            io::ErrorKind::UnexpectedEof if io.to_string().contains("tls") => Some(Self::TlsClosed),
            _ => None,
        }
    }

    /// Why a name was not resolved, in the words of the C library. A machine without a network gets
    /// those of glibc and musl; macOS says the same of a name that does not exist.
    fn of_lookup(error: &(dyn Error + 'static)) -> Self {
        let is_temporary = |why: &(dyn Error + 'static)| {
            let why = why.to_string();
            why.contains("Temporary failure") || why.ends_with("Try again")
        };
        if successors(error.source(), |&why| why.source()).any(is_temporary) {
            Self::NoNameServer
        } else {
            Self::UnknownName
        }
    }

    fn of_tls(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidMessage(_) => Self::PlainServer,
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                Self::UntrustedCertificate
            }
            rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => Self::CertificateOfAnother,
            rustls::Error::InvalidCertificate(_) => Self::BadCertificate,
            _ => Self::Tls,
        }
    }

    /// The kind of the fault, and how long the provider is worth waiting for; `None` if only
    /// another configuration helps.
    fn nature(self) -> (Kind, Option<Patience>) {
        let one_more = Some(Patience::OneMore);
        match self {
            Self::UnknownName
            | Self::NoNameServer
            | Self::ConnectionRefused
            | Self::NoRoute
            | Self::Proxy
            | Self::TlsClosed
            | Self::Tls
            | Self::Connect => (Kind::Unreachable, one_more),
            Self::ConnectTimeout => (Kind::Unreachable, Some(Patience::NoMore)),
            Self::PlainServer
            | Self::UntrustedCertificate
            | Self::CertificateOfAnother
            | Self::BadCertificate => (Kind::Unreachable, None),
            Self::NoHttp => (Kind::BadReply, None),
            Self::Closed => (Kind::Cut, one_more),
        }
    }

    fn message(self, upstream: &Upstream, request: &str) -> String {
        let provider = upstream.provider();
        let id = &provider.id;
        let (host, server) = upstream.host_and_port();
        let seconds = provider.timeouts.connect.as_secs();
        let what = match self {
            Self::UnknownName => format!(
                "The provider '{id}' cannot be reached: the name '{host}' was not found. Check the \
                 network and the spelling of its base_url."
            ),
            Self::NoNameServer => format!(
                "The provider '{id}' cannot be reached: no name server could be asked for the name \
                 '{host}'. Check the network."
            ),
            Self::ConnectionRefused => format!(
                "The provider '{id}' cannot be reached: {server} refused the connection. Check \
                 whether the server runs, and its base_url."
            ),
            Self::NoRoute => format!(
                "The provider '{id}' cannot be reached: there is no route to {server}. Check the \
                 network and its base_url."
            ),
            Self::ConnectTimeout => format!(
                "The provider '{id}' cannot be reached: {server} did not accept the connection \
                 within {seconds} s. Check the network and its base_url."
            ),
            Self::Proxy => format!(
                "The provider '{id}' cannot be reached: the proxy on the way did not connect to \
                 {server}. Check HTTPS_PROXY, or 'proxy' in its section; the log says why."
            ),
            Self::PlainServer => format!(
                "The provider '{id}' cannot be reached: {server} does not speak TLS. Write http:// \
                 in its base_url, or the port at which it speaks TLS."
            ),
            Self::UntrustedCertificate => format!(
                "The provider '{id}' cannot be reached: the certificate of {server} is not \
                 trusted. Name the file of its authority in ca_file."
            ),
            Self::CertificateOfAnother => format!(
                "The provider '{id}' cannot be reached: the certificate of {server} is not for \
                 the name '{host}'. Write a name in base_url that the certificate has."
            ),
            Self::BadCertificate => format!(
                "The provider '{id}' cannot be reached: the certificate of {server} is not valid. \
                 The log says why."
            ),
            Self::TlsClosed => format!(
                "The provider '{id}' cannot be reached: {server} closed the connection instead of \
                 speaking TLS. If it does not speak TLS, write http:// in its base_url."
            ),
            Self::Tls => format!(
                "The provider '{id}' cannot be reached: TLS failed with {server}. The log says why."
            ),
            Self::Connect => format!(
                "The provider '{id}' cannot be reached at {server}. Check the network and its \
                 base_url; the log says why."
            ),
            Self::NoHttp => format!(
                "The provider '{id}' does not answer with HTTP at {server}. If it expects TLS, \
                 write https:// in its base_url."
            ),
            Self::Closed => {
                format!("The provider '{id}' closed the connection before it answered.")
            }
        };
        format!("{what} The request was {request}.")
    }
}

/// The sources of an error as text, without its own message, which contains the URL.
pub(super) fn error_chain(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut source = error.source();
    while let Some(error) = source {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&error.to_string());
        source = error.source();
    }
    if text.is_empty() {
        "the transfer failed".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Outer(&'static str, #[source] Box<dyn Error>);

    #[test]
    fn a_name_server_that_is_silent_does_not_say_that_there_is_no_such_name() {
        for (why, failure) in [
            (
                "Temporary failure in name resolution",
                TransportFailure::NoNameServer,
            ),
            ("Try again", TransportFailure::NoNameServer),
            ("Name or service not known", TransportFailure::UnknownName),
        ] {
            let why = format!("failed to lookup address information: {why}");
            let inner = Outer("error resolving DNS", io::Error::other(why).into());
            let error = Outer("dns error", inner.into());
            assert_eq!(TransportFailure::of_cause(&error), Some(failure));
        }
    }
}
