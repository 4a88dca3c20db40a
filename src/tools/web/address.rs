//! Which addresses of the network may be reached for a page that a model, a client or another page
//! has named. Only public ones: a page must not be able to read what is on this machine, in its
//! network, or in the metadata service of its cloud.
//!
//! Sources: the special-purpose address registries of IANA (RFC 6890), for IPv4 and IPv6.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ranges of IPv4 that are not public: network and length of the prefix.
const IPV4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    // Shared by providers; metadata of Alibaba Cloud is in it.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // The metadata of most clouds.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    // Metadata of Oracle Cloud is in it.
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast, and what is reserved.
    (Ipv4Addr::new(224, 0, 0, 0), 3),
    // The agent of Azure, on an address that is public otherwise.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// The public range of IPv6. All others are local, reserved, or hold an IPv4 address.
const IPV6_PUBLIC: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Ranges within it that are not public.
const IPV6: &[(Ipv6Addr, u32)] = &[
    // Protocols of the IETF: Teredo, ORCHID and others.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // 6to4, which leads to an IPv4 address.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Whether an address is one of the public network.
pub fn is_public(address: IpAddr) -> bool {
    // An IPv6 address can be an IPv4 address in another form.
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let is_in = |(network, length): &(Ipv4Addr, u32)| {
                let rest = 32 - length;
                address.to_bits().checked_shr(rest) == network.to_bits().checked_shr(rest)
            };
            !IPV4.iter().any(is_in)
        }
        IpAddr::V6(address) => {
            let is_in = |(network, length): &(Ipv6Addr, u32)| {
                let rest = 128 - length;
                address.to_bits().checked_shr(rest) == network.to_bits().checked_shr(rest)
            };
            is_in(&IPV6_PUBLIC) && !IPV6.iter().any(is_in)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_network_are_public() {
        for (address, expected) in [
            ("1.1.1.1", true),
            ("9.255.255.255", true),
            ("11.0.0.0", true),
            ("100.63.255.255", true),
            ("100.128.0.0", true),
            ("172.15.255.255", true),
            ("172.32.0.0", true),
            ("192.0.1.1", true),
            ("198.17.255.255", true),
            ("198.20.0.0", true),
            ("223.255.255.255", true),
            ("168.63.129.17", true),
            ("2606:4700::1111", true),
            ("2001:200::1", true),
            ("2a00:1450:4001::1", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("10.0.0.1", false),
            ("100.64.0.1", false),
            ("100.100.100.200", false),
            ("127.0.0.1", false),
            ("127.255.255.254", false),
            ("169.254.169.254", false),
            ("169.254.170.2", false),
            ("172.16.0.1", false),
            ("172.31.255.255", false),
            ("192.0.0.192", false),
            ("192.0.2.1", false),
            ("192.88.99.1", false),
            ("192.168.1.1", false),
            ("198.18.0.1", false),
            ("198.19.255.255", false),
            ("198.51.100.7", false),
            ("203.0.113.9", false),
            ("224.0.0.1", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("168.63.129.16", false),
            ("::", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:1.1.1.1", true),
            ("::127.0.0.1", false),
            ("::ffff:0:127.0.0.1", false),
            ("64:ff9b::7f00:1", false),
            ("64:ff9b:1::a9fe:a9fe", false),
            ("100::1", false),
            ("2001::1", false),
            ("2001:10::1", false),
            ("2001:20::1", false),
            ("2001:db8::1", false),
            ("2002:7f00:1::1", false),
            ("2002:a9fe:a9fe::1", false),
            ("3fff::1", false),
            ("5f00::1", false),
            ("fc00::1", false),
            ("fd00:ec2::254", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }
}
