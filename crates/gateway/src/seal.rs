//! Session ids and other tokens that only we can make and read: AEAD over a small record.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::TryRngCore;
use rand::rngs::OsRng;

/// Seals and opens tokens.
pub struct Seal {
    key: LessSafeKey,
}

/// The longest token we look at.
const LONGEST: usize = 256 * 1024;

impl Seal {
    /// From a configured secret, so that every replica with the same one can open our tokens; random without.
    pub fn new(secret: Option<&str>) -> Option<Seal> {
        let mut key = [0; 32];
        match secret {
            Some(secret) => key.copy_from_slice(digest::digest(&digest::SHA256, secret.as_bytes()).as_ref()),
            // The system's own: that of the crypto library measures the clock for fifty milliseconds before the first byte.
            None => OsRng.try_fill_bytes(&mut key).ok()?,
        }
        Some(Seal { key: LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).ok()?) })
    }

    /// A token that holds these bytes. `purpose` is bound to it: a token for one purpose is none for another.
    pub fn seal(&self, purpose: &str, bytes: &[u8]) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        OsRng.try_fill_bytes(&mut nonce).ok()?;
        let mut sealed = bytes.to_vec();
        self.key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(purpose), &mut sealed).ok()?;
        let mut token = nonce.to_vec();
        token.append(&mut sealed);
        Some(URL_SAFE_NO_PAD.encode(token))
    }

    /// The bytes of a token of ours; `None` for anything else.
    pub fn open(&self, purpose: &str, token: &str) -> Option<Vec<u8>> {
        if token.len() > LONGEST {
            return None;
        }
        let mut bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let mut sealed = bytes.split_off(bytes.len().min(NONCE_LEN));
        let nonce = Nonce::try_assume_unique_for_key(&bytes).ok()?;
        let length = self.key.open_in_place(nonce, Aad::from(purpose), &mut sealed).ok()?.len();
        sealed.truncate(length);
        Some(sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // H9
    #[test]
    fn only_our_own_unchanged_tokens_open_and_only_for_their_purpose() {
        let seal = Seal::new(Some("a secret")).unwrap();
        let token = seal.seal("session", b"hello").unwrap();
        assert_eq!(seal.open("session", &token).as_deref(), Some(&b"hello"[..]));
        assert_eq!(Seal::new(Some("a secret")).unwrap().open("session", &token).as_deref(), Some(&b"hello"[..]));
        assert_eq!(seal.open("cursor", &token), None);
        assert_eq!(Seal::new(None).unwrap().open("session", &token), None);
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(seal.open("session", std::str::from_utf8(&bytes).unwrap()), None, "changed at {at}");
        }
        for odd in ["", "x", "attacker", &"A".repeat(500_000)] {
            assert_eq!(seal.open("session", odd), None);
        }
    }
}
