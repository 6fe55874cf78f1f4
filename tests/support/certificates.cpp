// SPDX-License-Identifier: Apache-2.0
#include "support/certificates.hpp"
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <cstdio>
#include <stdexcept>

namespace dlock::test {
namespace {

EVP_PKEY* new_key() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  if (!key) throw std::runtime_error("no key");
  return key;
}

void extend(X509* cert, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  X509_EXTENSION* e = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  if (!e) throw std::runtime_error("bad extension");
  X509_add_ext(cert, e, -1);
  X509_EXTENSION_free(e);
}

X509* new_cert(const std::string& name, EVP_PKEY* key, int days, long serial) {
  constexpr long day = 86400;
  X509* cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), serial);
  X509_gmtime_adj(X509_getm_notBefore(cert), -2 * day);
  X509_gmtime_adj(X509_getm_notAfter(cert), days * day);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_pubkey(cert, key);
  return cert;
}

template <class Write>
void save(const std::string& path, Write write) {
  std::FILE* f = std::fopen(path.c_str(), "we");
  if (!f || write(f) != 1) throw std::runtime_error("cannot write " + path);
  std::fclose(f);
}

}  // namespace

struct Authority::Impl {
  std::string directory, name;
  EVP_PKEY* key;
  X509* cert;
  long serial = 1;
};

Authority::Authority(std::string directory, std::string name)
    : impl_(new Impl{std::move(directory), std::move(name), new_key(), nullptr}) {
  X509* cert = impl_->cert = new_cert(impl_->name, impl_->key, 10, 1);
  X509_set_issuer_name(cert, X509_get_subject_name(cert));
  extend(cert, cert, NID_basic_constraints, "critical,CA:TRUE");
  extend(cert, cert, NID_subject_key_identifier, "hash");
  X509_sign(cert, impl_->key, EVP_sha256());
  save(file(), [&](std::FILE* f) { return PEM_write_X509(f, cert); });
}

Authority::~Authority() {
  X509_free(impl_->cert);
  EVP_PKEY_free(impl_->key);
  delete impl_;
}

std::string Authority::file() const { return impl_->directory + "/" + impl_->name + ".crt"; }

Authority::Files Authority::issue(const std::string& name, const std::string& subject_alt_name,
                                  int days) const {
  EVP_PKEY* key = new_key();
  X509* cert = new_cert(name, key, days, ++impl_->serial);
  X509_set_issuer_name(cert, X509_get_subject_name(impl_->cert));
  extend(cert, impl_->cert, NID_subject_alt_name, subject_alt_name.c_str());
  extend(cert, impl_->cert, NID_authority_key_identifier, "keyid");
  X509_sign(cert, impl_->key, EVP_sha256());
  const Files files{impl_->directory + "/" + name + ".crt", impl_->directory + "/" + name + ".key"};
  save(files.cert, [&](std::FILE* f) { return PEM_write_X509(f, cert); });
  save(files.key, [&](std::FILE* f) {
    return PEM_write_PrivateKey(f, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
  X509_free(cert);
  EVP_PKEY_free(key);
  return files;
}

}  // namespace dlock::test
