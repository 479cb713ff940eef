from __future__ import annotations

import ssl
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from threading import Barrier

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from umbel.identity import authority as authorities
from umbel.identity import issuance
from umbel.identity.authority import Authority
from umbel.identity.names import BadName

SECRET = b"correct horse"


def issued(by: Authority, now: datetime, *names: str, days: int = 90) -> x509.Certificate:
    key = issuance.new_key().public_key()
    return x509.load_pem_x509_certificate(by.issue(key, names, now=now, days=days))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_ca_signs_leaves_and_nothing_below_them(authority: Authority) -> None:
    ca = authority.certificate
    basic = ca.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = ca.extensions.get_extension_for_class(x509.KeyUsage)
    assert basic.critical
    assert basic.value == x509.BasicConstraints(ca=True, path_length=0)
    assert usage.critical
    assert (usage.value.key_cert_sign, usage.value.digital_signature) == (True, False)
    assert ca.subject.rfc4514_string() == "CN=umbel hospitals CA"
    assert isinstance(ca.public_key(), ec.EllipticCurvePublicKey)
    ca.verify_directly_issued_by(ca)


def test_only_the_owner_can_read_the_ca_key(authority: Authority) -> None:
    assert mode(authority.folder) == 0o700
    assert mode(authority.folder / "ca.key") == 0o600
    assert b"PRIVATE" not in authority.certificate_path.read_bytes()
    assert b"PRIVATE" not in authority.bundle_path.read_bytes()


def test_a_key_left_open_by_a_backup_is_closed_again(authority: Authority) -> None:
    (authority.folder / "ca.key").chmod(0o644)
    Authority.load(authority.folder, None)
    assert mode(authority.folder / "ca.key") == 0o600


def test_a_leaf_says_what_a_server_certificate_should(authority: Authority, now: datetime) -> None:
    leaf = issued(authority, now, "fl.example.org", "127.0.0.1", "::1")
    get = leaf.extensions.get_extension_for_class
    names = get(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fl.example.org"]
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("127.0.0.1"), ip_address("::1")]
    assert list(get(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert get(x509.BasicConstraints).value.ca is False
    assert get(x509.KeyUsage).value.digital_signature is True
    authority_key = get(x509.AuthorityKeyIdentifier).value.key_identifier
    subject_key = authority.certificate.extensions.get_extension_for_class(
        x509.SubjectKeyIdentifier
    ).value.digest
    assert authority_key == subject_key
    assert now - timedelta(minutes=10) < leaf.not_valid_before_utc < now
    assert leaf.not_valid_after_utc == now + timedelta(days=90)


def test_a_strict_verifier_accepts_the_leaf_for_its_names_only(
    authority: Authority, now: datetime
) -> None:
    leaf = issued(authority, now, "fl.example.org")
    builder = PolicyBuilder().store(Store([authority.certificate])).time(now)
    builder.build_server_verifier(x509.DNSName("fl.example.org")).verify(leaf, [])
    with pytest.raises(VerificationError):
        builder.build_server_verifier(x509.DNSName("evil.example.org")).verify(leaf, [])


def test_a_leaf_never_outlives_its_ca(tmp_path: Path, now: datetime) -> None:
    short = Authority.create(tmp_path / "ca", "f", now=now, days=10, secret=None)
    leaf = issued(short, now, "localhost", days=90)
    assert leaf.not_valid_after_utc == short.certificate.not_valid_after_utc


def test_serial_numbers_do_not_repeat(authority: Authority, now: datetime) -> None:
    assert len({issued(authority, now, "localhost").serial_number for _ in range(20)}) == 20


def test_a_client_certificate_is_not_a_server_certificate(
    authority: Authority, now: datetime
) -> None:
    key = issuance.new_key().public_key()
    pem = authority.issue(key, ["localhost"], now=now, days=1, server=False)
    usage = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(
        x509.ExtendedKeyUsage
    )
    assert list(usage.value) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_a_name_too_long_for_a_subject_is_an_alternative_name_alone(
    authority: Authority, now: datetime
) -> None:
    name = ".".join(["a" * 60] * 3)
    leaf = issued(authority, now, name)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert not list(leaf.subject)
    assert names.critical
    assert names.value.get_values_for_type(x509.DNSName) == [name]


def test_the_longest_federation_name_fits_and_stays_its_own(tmp_path: Path, now: datetime) -> None:
    folder = tmp_path / "ca"
    made = Authority.create(folder, "a" * 63, now=now, days=1, secret=None)
    assert len(made.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value) <= 64
    with pytest.raises(authorities.AuthorityForeign):
        Authority.create(folder, "a" * 62 + "b", now=now, days=1, secret=None)


def test_a_request_brings_a_key_and_no_names(authority: Authority, now: datetime) -> None:
    key = issuance.new_key()
    asked = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("evil.org")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = authority.issue(
        asked.public_bytes(serialization.Encoding.PEM), ["good.org"], now=now, days=1
    )
    leaf = x509.load_pem_x509_certificate(pem)
    assert leaf.public_key() == key.public_key()
    assert b"evil.org" not in leaf.public_bytes(serialization.Encoding.DER)


def test_a_request_with_a_wrong_signature_is_refused(authority: Authority, now: datetime) -> None:
    pem = issuance.request(issuance.new_key(), "x")
    der = bytearray(x509.load_pem_x509_csr(pem).public_bytes(serialization.Encoding.DER))
    der[-1] ^= 1
    spoiled = x509.load_der_x509_csr(bytes(der)).public_bytes(serialization.Encoding.PEM)
    with pytest.raises(issuance.RequestRefused, match="signature"):
        authority.issue(spoiled, ["localhost"], now=now, days=1)


def test_a_request_with_another_kind_of_key_is_refused(authority: Authority, now: datetime) -> None:
    key = rsa.generate_private_key(65537, 2048)
    asked = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    pem = asked.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    with pytest.raises(issuance.RequestRefused, match="kind"):
        authority.issue(pem, ["localhost"], now=now, days=1)


@pytest.mark.parametrize("content", [b"", b"hello", b"-----BEGIN CERTIFICATE REQUEST-----\nAA==\n"])
def test_what_is_no_request_is_refused(authority: Authority, now: datetime, content: bytes) -> None:
    with pytest.raises(issuance.RequestRefused):
        authority.issue(content, ["localhost"], now=now, days=1)


def test_a_bad_name_gets_no_certificate(authority: Authority, now: datetime) -> None:
    with pytest.raises(BadName):
        issued(authority, now, "good.org", "*.example.org")


def test_an_expired_ca_signs_nothing_and_says_how_to_go_on(
    authority: Authority, now: datetime
) -> None:
    with pytest.raises(authorities.AuthorityExpired) as caught:
        issued(authority, now + timedelta(days=3651), "localhost")
    assert "--rotate-ca" in caught.value.hint


def test_a_clock_before_the_ca_is_named(authority: Authority, now: datetime) -> None:
    with pytest.raises(authorities.AuthorityNotYetValid, match="begins at"):
        issued(authority, now - timedelta(hours=1), "localhost")


def test_creating_again_gives_the_same_ca(authority: Authority, now: datetime) -> None:
    again = Authority.create(authority.folder, "hospitals", now=now, days=1, secret=None)
    assert again.certificate == authority.certificate


def test_another_federation_does_not_get_this_ca(authority: Authority, now: datetime) -> None:
    with pytest.raises(authorities.AuthorityForeign, match="banks"):
        Authority.create(authority.folder, "banks", now=now, days=1, secret=None)


def test_many_that_create_at_once_get_one_ca(tmp_path: Path, now: datetime) -> None:
    start = Barrier(8)

    def create(_: int) -> x509.Certificate:
        start.wait()
        return Authority.create(tmp_path / "ca", "f", now=now, days=9, secret=None).certificate

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(create, range(8)))) == 1


def test_an_encrypted_key_opens_with_its_secret_alone(tmp_path: Path, now: datetime) -> None:
    folder = tmp_path / "ca"
    made = Authority.create(folder, "f", now=now, days=9, secret=SECRET)
    assert (folder / "ca.key").read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    with pytest.raises(authorities.SecretNeeded):
        Authority.load(folder, None)
    # OpenSSL reads it too, so that a person can without us
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
        made.certificate_path, folder / "ca.key", password=SECRET
    )
    with pytest.raises(authorities.SecretWrong):
        Authority.load(folder, b"battery staple")


def test_a_plain_key_is_refused_where_a_secret_is_declared(authority: Authority) -> None:
    with pytest.raises(authorities.SecretUnused):
        Authority.load(authority.folder, SECRET)


def test_an_empty_folder_has_no_ca(tmp_path: Path) -> None:
    with pytest.raises(authorities.AuthorityMissing):
        Authority.load(tmp_path, None)


def test_a_lost_key_is_not_replaced_behind_the_sites_backs(
    authority: Authority, now: datetime
) -> None:
    (authority.folder / "ca.key").unlink()
    with pytest.raises(authorities.AuthorityDamaged):
        Authority.create(authority.folder, "hospitals", now=now, days=9, secret=None)
    with pytest.raises(authorities.AuthorityDamaged):
        Authority.load(authority.folder, None)


@pytest.mark.parametrize("keep", [0, 1, 40, 120, 250, 400, 700])
def test_a_cut_file_is_named_as_damaged(authority: Authority, keep: int) -> None:
    path = authority.folder / "ca.key"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(authorities.AuthorityDamaged):
        Authority.load(authority.folder, None)


def test_another_cas_key_is_named_as_damage(authority: Authority, now: datetime) -> None:
    other = Authority.create(authority.folder.with_name("b"), "b", now=now, days=9, secret=None)
    path = authority.folder / "ca.key"
    foreign = (other.folder / "ca.key").read_bytes().partition(b"-----BEGIN CERT")[0]
    path.write_bytes(foreign + authority.certificate_path.read_bytes())
    with pytest.raises(authorities.AuthorityDamaged, match="differ"):
        Authority.load(authority.folder, None)


def test_lost_copies_are_made_again(authority: Authority) -> None:
    before = authority.bundle_path.read_bytes()
    authority.bundle_path.unlink()
    authority.certificate_path.write_bytes(b"spoiled")
    Authority.load(authority.folder, None)
    assert authority.bundle_path.read_bytes() == before
    assert authority.certificate_path.read_bytes() == before


def test_a_rotation_keeps_the_old_ca_trusted_until_it_is_dropped(
    authority: Authority, now: datetime
) -> None:
    new = authority.rotate(now=now, days=3650, secret=None)
    assert new.certificate != authority.certificate
    loaded = Authority.load(authority.folder, None)
    assert loaded.certificate == new.certificate
    assert loaded.trusted == (new.certificate, authority.certificate)
    assert x509.load_pem_x509_certificates(new.bundle_path.read_bytes()) == [*new.trusted]
    issued(new, now, "localhost").verify_directly_issued_by(new.certificate)
    alone = loaded.drop_former()
    assert alone.trusted == (new.certificate,)
    assert Authority.load(authority.folder, None).trusted == (new.certificate,)
    assert x509.load_pem_x509_certificates(new.bundle_path.read_bytes()) == [new.certificate]


def test_a_rotation_carries_no_ca_that_is_over(authority: Authority, now: datetime) -> None:
    later = now + timedelta(days=4000)
    new = authority.rotate(now=later, days=10, secret=None)
    assert new.former == ()
    issued(new, later, "localhost")


def test_two_that_rotate_the_same_ca_rotate_once(authority: Authority, now: datetime) -> None:
    first = authority.rotate(now=now, days=10, secret=None)
    second = authority.rotate(now=now, days=10, secret=None)
    assert second.trusted == first.trusted


def test_dropping_spares_a_ca_that_was_replaced_meanwhile(
    authority: Authority, now: datetime
) -> None:
    second = authority.rotate(now=now, days=10, secret=None)
    third = second.rotate(now=now, days=10, secret=None)
    second.drop_former()
    loaded = Authority.load(authority.folder, None)
    assert loaded.trusted == (third.certificate, second.certificate)


def test_a_rotation_can_bring_encryption_that_stays(authority: Authority, now: datetime) -> None:
    new = authority.rotate(now=now, days=10, secret=SECRET)
    new.drop_former()
    assert Authority.load(authority.folder, SECRET).certificate == new.certificate


def test_nothing_secret_is_in_the_text_of_an_authority(authority: Authority) -> None:
    assert "key" not in repr(authority).lower()
