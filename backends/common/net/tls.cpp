// SPDX-License-Identifier: Apache-2.0
#include "common/net/tls.hpp"
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <climits>
#include <cstring>
#include <utility>
#include "common/lookup.hpp"
#include "util/file.hpp"

namespace dlock {
namespace {

std::string reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "OpenSSL gives no reason";
  if (ERR_GET_LIB(code) == ERR_LIB_SYS) return std::strerror(ERR_GET_REASON(code));
  if (const char* text = ERR_reason_error_string(code)) return text;
  char text[256];
  ERR_error_string_n(code, text, sizeof text);
  return text;
}

Result<void> trust(SSL_CTX* context, const std::string& ca) {
  if (ca.empty()) {
    if (SSL_CTX_set_default_verify_paths(context) != 1)
      return fail(Errc::config, "this system has no trusted certificates: give --tls-ca");
    return {};
  }
  if (const char* why = why_unusable(ca, true))
    return fail(Errc::config, "--tls-ca {}: {}", ca, why);
  struct stat s {};
  const bool directory = ::stat(ca.c_str(), &s) == 0 && S_ISDIR(s.st_mode);
  if ((directory ? SSL_CTX_load_verify_dir(context, ca.c_str())
                 : SSL_CTX_load_verify_file(context, ca.c_str())) != 1)
    return fail(Errc::config, "--tls-ca {}: {}", ca, reason());
  return {};
}

Result<void> identify(SSL_CTX* context, const std::string& cert, const std::string& key) {
  if (cert.empty() != key.empty())
    return fail(Errc::config, "--tls-cert and --tls-key go together: only one was given");
  if (cert.empty()) return {};
  for (const auto& [option, path] : {std::pair{"--tls-cert", &cert}, std::pair{"--tls-key", &key}})
    if (const char* why = why_unusable(*path, false))
      return fail(Errc::config, "{} {}: {}", option, *path, why);
  if (SSL_CTX_use_certificate_chain_file(context, cert.c_str()) != 1)
    return fail(Errc::config, "--tls-cert {}: {}", cert, reason());
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1)
    return fail(Errc::config, "--tls-key {}: {}", key, reason());
  if (SSL_CTX_check_private_key(context) != 1)
    return fail(Errc::config, "--tls-key {} does not belong to --tls-cert {}", key, cert);
  return {};
}

// Without this, OpenSSL would ask at the terminal for a key's passphrase.
int no_passphrase(char*, int, int, void*) { return 0; }

}  // namespace

void TlsContext::Free::operator()(ssl_ctx_st* c) const noexcept { SSL_CTX_free(c); }
void Tls::Free::operator()(ssl_st* s) const noexcept { SSL_free(s); }

Result<TlsContext> TlsContext::create(const TlsOptions& options) {
  TlsContext made;
  made.context_.reset(SSL_CTX_new(TLS_client_method()));
  SSL_CTX* context = made.context_.get();
  if (!context) return fail(Errc::internal, "TLS cannot be initialised: {}", reason());
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  made.options_ = options;
  const bool verify = options.verify != TlsOptions::Verify::nothing;
  SSL_CTX_set_verify(context, verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (verify) TRY_VOID(trust(context, options.ca));
  TRY_VOID(identify(context, options.cert, options.key));
  return made;
}

Tls::Tls(const TlsContext& context, const std::string& host)
    : ssl_(SSL_new(context.context_.get())), in_(BIO_new(BIO_s_mem())), out_(BIO_new(BIO_s_mem())) {
  SSL_set_bio(ssl_.get(), in_, out_);
  SSL_set_connect_state(ssl_.get());
  const std::string& name = context.options_.name_of(host);
  const bool verify = context.options_.verify == TlsOptions::Verify::name, ip = is_address(name);
  if (!ip) SSL_set_tlsext_host_name(ssl_.get(), name.c_str());
  if (verify && ip) X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), name.c_str());
  if (verify && !ip) SSL_set1_host(ssl_.get(), name.c_str());
}

void Tls::feed(std::string_view wire) {
  if (!wire.empty())
    BIO_write(in_, wire.data(), static_cast<int>(std::min<std::size_t>(wire.size(), INT_MAX)));
}

void Tls::drain(std::string& out) {
  char buffer[4096];
  for (int n = 0; (n = BIO_read(out_, buffer, sizeof buffer)) > 0;)
    out.append(buffer, static_cast<std::size_t>(n));
}

Result<bool> Tls::handshake(std::string_view wire, std::string& out) {
  feed(wire);
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  drain(out);  // after a failure, too, because the alert gives the server the reason
  if (result == 1) return true;
  if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ) return false;
  const long verdict = SSL_get_verify_result(ssl_.get());
  const bool outdated =
      verdict == X509_V_ERR_CERT_HAS_EXPIRED || verdict == X509_V_ERR_CERT_NOT_YET_VALID;
  if (verdict != X509_V_OK)
    return fail(Errc::denied, "certificate refused: {}{}", X509_verify_cert_error_string(verdict),
                outdated ? "" : fmt::format(" ({})", tls_advice));
  const unsigned long code = ERR_peek_error();
  const bool plain = ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER ||
                     ERR_GET_REASON(code) == SSL_R_HTTP_REQUEST;
  return fail(Errc::denied, plain ? "the server does not speak TLS on this port"
                                  : fmt::format("TLS handshake: {}", reason()));
}

Result<void> Tls::encrypt(std::string_view plain, std::string& out) {
  ERR_clear_error();
  std::size_t written = 0;
  if (!plain.empty() && SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written) != 1)
    return fail(Errc::unavailable, "TLS: {}", reason());
  drain(out);
  return {};
}

Result<bool> Tls::decrypt(std::string_view wire, std::string& plain, std::string& out) {
  feed(wire);
  char buffer[16384];
  std::size_t n = 0;
  ERR_clear_error();
  while (SSL_read_ex(ssl_.get(), buffer, sizeof buffer, &n) == 1) plain.append(buffer, n);
  drain(out);
  switch (SSL_get_error(ssl_.get(), 0)) {
    case SSL_ERROR_WANT_READ: return true;
    case SSL_ERROR_ZERO_RETURN: return false;
    default: break;
  }
  // A TLS 1.3 server refuses our certificate only after the handshake.
  const int why = ERR_GET_REASON(ERR_peek_error());
  const bool refused =
      why == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED || why == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
      why == SSL_R_TLSV1_ALERT_UNKNOWN_CA || why == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN ||
      why == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED || why == SSL_R_TLSV1_ALERT_ACCESS_DENIED;
  return fail(refused ? Errc::denied : Errc::unavailable, "TLS: {}", reason());
}

}  // namespace dlock
