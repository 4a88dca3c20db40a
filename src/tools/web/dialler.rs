//! Opens connections to servers of the web.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Host;

use super::address;

/// How long to wait for an address before the next one of its host is tried. Some networks have no
/// working route for IPv6.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(1);

/// Finds the addresses of names and connects to them. One is the system's; a test has one of its
/// own, which reaches nothing but its servers.
pub trait Dialler: Send + Sync {
    /// The addresses of a name.
    fn resolve<'d>(&'d self, name: &'d str) -> DialFuture<'d, Vec<IpAddr>>;

    /// A connection to an address.
    fn connect(&self, address: SocketAddr) -> DialFuture<'_, Box<dyn Connection>>;
}

/// What a dialler does.
pub type DialFuture<'d, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'd>>;

/// A connection to a server.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// The network of this machine.
pub struct SystemDialler;

impl Dialler for SystemDialler {
    fn resolve<'d>(&'d self, name: &'d str) -> DialFuture<'d, Vec<IpAddr>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }

    fn connect(&self, address: SocketAddr) -> DialFuture<'_, Box<dyn Connection>> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    }
}

/// Why no connection was made.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name or address leads to no public address.
    #[error("{0} is not an address of the public network")]
    NotPublic(String),
    /// The name has no address.
    #[error("no address was found for {0}")]
    Unknown(String),
    /// No address could be reached.
    #[error("the server cannot be reached")]
    Unreachable(#[source] io::Error),
}

/// Connects to hosts. The address that is checked is the one that is dialled, so that a name cannot
/// change between the two.
#[derive(Clone)]
pub struct WebDialler {
    dialler: Arc<dyn Dialler>,
    reach: DiallerReach,
}

/// Which addresses may be connected to.
#[derive(Clone)]
enum DiallerReach {
    Any,
    /// Public ones, and these.
    PublicAnd(Arc<[IpAddr]>),
}

impl WebDialler {
    /// Reaches public addresses only: for what a model, a client or a page has named.
    pub fn public(dialler: Arc<dyn Dialler>) -> Self {
        Self::public_and(dialler, [])
    }

    /// Reaches public addresses and these: for what a client has named and the operator allows.
    pub fn public_and(dialler: Arc<dyn Dialler>, others: impl IntoIterator<Item = IpAddr>) -> Self {
        Self {
            dialler,
            reach: DiallerReach::PublicAnd(others.into_iter().collect()),
        }
    }

    /// Reaches any address: for what the operator has configured.
    pub fn any(dialler: Arc<dyn Dialler>) -> Self {
        Self {
            dialler,
            reach: DiallerReach::Any,
        }
    }

    /// The addresses of a host. A name that has both a public and another address is refused as a
    /// whole: no public server has both.
    pub async fn addresses(&self, host: &Host<&str>) -> Result<Vec<IpAddr>, DialError> {
        let addresses = match host {
            Host::Ipv4(address) => vec![IpAddr::V4(*address)],
            Host::Ipv6(address) => vec![IpAddr::V6(*address)],
            Host::Domain(name) => {
                let found = self.dialler.resolve(name).await;
                found.map_err(|_| DialError::Unknown((*name).to_owned()))?
            }
        };
        let may_reach = |address: &IpAddr| match &self.reach {
            DiallerReach::Any => true,
            DiallerReach::PublicAnd(others) => {
                address::is_public(*address) || others.contains(address)
            }
        };
        if !addresses.iter().all(may_reach) {
            return Err(DialError::NotPublic(host.to_string()));
        }
        Ok(addresses)
    }

    /// A connection to a host.
    pub async fn connect(
        &self,
        host: &Host<&str>,
        port: u16,
    ) -> Result<Box<dyn Connection>, DialError> {
        let addresses = self.addresses(host).await?;
        let Some((last, others)) = addresses.split_last() else {
            return Err(DialError::Unknown(host.to_string()));
        };
        for address in others {
            let connecting = self.dialler.connect(SocketAddr::new(*address, port));
            if let Ok(Ok(connection)) = timeout(ADDRESS_TIMEOUT, connecting).await {
                return Ok(connection);
            }
        }
        let connected = self.dialler.connect(SocketAddr::new(*last, port)).await;
        connected.map_err(DialError::Unreachable)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    /// Has two addresses, and one network that leads nowhere.
    struct TwoNetworks;

    impl Dialler for TwoNetworks {
        fn resolve<'d>(&'d self, _: &'d str) -> DialFuture<'d, Vec<IpAddr>> {
            let addresses = ["2001:4860::1", "8.8.8.8"].map(|text| text.parse().unwrap());
            Box::pin(async move { Ok(addresses.to_vec()) })
        }

        fn connect(&self, address: SocketAddr) -> DialFuture<'_, Box<dyn Connection>> {
            Box::pin(async move {
                if address.is_ipv6() {
                    return pending().await;
                }
                Ok(Box::new(tokio::io::duplex(1).0) as Box<dyn Connection>)
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_does_not_answer_gives_way_to_the_next_one() {
        let dialler = WebDialler::public(Arc::new(TwoNetworks));
        let host = Host::Domain("example.org");
        // A page has five seconds for its head, and a search engine four for all.
        let connected = timeout(Duration::from_secs(2), dialler.connect(&host, 443)).await;
        assert!(connected.unwrap().is_ok());
    }

    /// A name that leads to a private network.
    struct PrivateNetwork;

    impl Dialler for PrivateNetwork {
        fn resolve<'d>(&'d self, _: &'d str) -> DialFuture<'d, Vec<IpAddr>> {
            Box::pin(async { Ok(vec!["10.0.0.5".parse().unwrap()]) })
        }

        fn connect(&self, _: SocketAddr) -> DialFuture<'_, Box<dyn Connection>> {
            Box::pin(async { Ok(Box::new(tokio::io::duplex(1).0) as Box<dyn Connection>) })
        }
    }

    #[tokio::test]
    async fn a_name_leads_to_a_private_address_only_if_that_is_listed() {
        for (others, expected) in [
            (vec![], false),
            (vec!["10.0.0.6"], false),
            (vec!["10.0.0.5"], true),
        ] {
            let listed = others.iter().map(|text| text.parse().unwrap());
            let dialler = WebDialler::public_and(Arc::new(PrivateNetwork), listed);
            let host = Host::Domain("mcp.example.org");
            let connected = dialler.connect(&host, 443).await;
            assert_eq!(connected.is_ok(), expected, "{others:?}");
        }
    }
}
