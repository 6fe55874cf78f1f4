// SPDX-License-Identifier: Apache-2.0
#include "etcd/client/tls.hpp"
#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <algorithm>
#include <climits>
#include <cstring>
#include "util/named_file.hpp"

namespace dlock::etcd {
namespace {

std::string last_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (ERR_GET_LIB(code) == ERR_LIB_SYS) return std::strerror(ERR_GET_REASON(code));
  const char* text = code == 0 ? nullptr : ERR_reason_error_string(code);
  return text ? text : "OpenSSL gives no reason";
}

// What the user named; no wait for the writer of a FIFO.
Result<void> readable(std::string_view option, const std::string& path) {
  if (const char* trouble = trouble_with_file(path, option == "--tls-ca"))
    return fail(Errc::config, fmt::format("{} {}: {}", option, path, trouble));
  return {};
}

Result<void> load_ca(SSL_CTX* context, const std::string& ca) {
  if (ca.empty()) {
    if (SSL_CTX_set_default_verify_paths(context) == 1) return {};
    return fail(Errc::config, "this system has no trusted certificates: give --tls-ca");
  }
  TRY_VOID(readable("--tls-ca", ca));
  struct stat s {};
  const bool directory = ::stat(ca.c_str(), &s) == 0 && S_ISDIR(s.st_mode);
  const int loaded = directory ? SSL_CTX_load_verify_dir(context, ca.c_str())
                               : SSL_CTX_load_verify_file(context, ca.c_str());
  if (loaded == 1) return {};
  return fail(Errc::config, fmt::format("--tls-ca {}: {}", ca, last_reason()));
}

Result<void> load_own(SSL_CTX* context, const TlsOptions& o) {
  if (o.cert.empty() != o.key.empty())
    return fail(Errc::config, "--tls-cert and --tls-key go together: only one was given");
  if (o.cert.empty()) return {};
  TRY_VOID(readable("--tls-cert", o.cert));
  TRY_VOID(readable("--tls-key", o.key));
  if (SSL_CTX_use_certificate_chain_file(context, o.cert.c_str()) != 1)
    return fail(Errc::config, fmt::format("--tls-cert {}: {}", o.cert, last_reason()));
  if (SSL_CTX_use_PrivateKey_file(context, o.key.c_str(), SSL_FILETYPE_PEM) != 1)
    return fail(Errc::config, fmt::format("--tls-key {}: {}", o.key, last_reason()));
  if (SSL_CTX_check_private_key(context) == 1) return {};
  return fail(Errc::config,
              fmt::format("--tls-key {} does not belong to --tls-cert {}", o.key, o.cert));
}

// A key with a passphrase is refused: OpenSSL would ask at the terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

bool is_address(const std::string& host) noexcept {
  in6_addr any{};
  return ::inet_pton(AF_INET, host.c_str(), &any) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

}  // namespace

Result<TlsContext> make_tls(const TlsOptions& options) {
  TlsContext made{SSL_CTX_new(TLS_client_method()), [](SSL_CTX* c) { SSL_CTX_free(c); }};
  if (!made) return fail(Errc::internal, "TLS cannot be initialised: " + last_reason());
  SSL_CTX_set_min_proto_version(made.get(), TLS1_2_VERSION);
  SSL_CTX_set_default_passwd_cb(made.get(), no_passphrase);
  SSL_CTX_set_verify(made.get(), options.insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  if (!options.insecure) TRY_VOID(load_ca(made.get(), options.ca));
  TRY_VOID(load_own(made.get(), options));
  return made;
}

Tls::Tls(TlsContext context, const std::string& host)
    : context_(std::move(context)),
      ssl_(SSL_new(context_.get())),
      in_(BIO_new(BIO_s_mem())),
      out_(BIO_new(BIO_s_mem())) {
  SSL_set_bio(ssl_, in_, out_);
  SSL_set_connect_state(ssl_);
  if (is_address(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), host.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl_, host.c_str());
    SSL_set1_host(ssl_, host.c_str());
  }
}

Tls::~Tls() { SSL_free(ssl_); }

void Tls::give(std::string_view received) {
  ERR_clear_error();
  if (!received.empty())
    BIO_write(in_, received.data(),
              static_cast<int>(std::min<std::size_t>(received.size(), INT_MAX)));
}

void Tls::collect(std::string& out) {
  char block[4096];
  for (int n = 0; (n = BIO_read(out_, block, sizeof block)) > 0;)
    out.append(block, static_cast<std::size_t>(n));
}

Result<bool> Tls::handshake(std::string_view received, std::string& out) {
  give(received);
  const int done = SSL_do_handshake(ssl_);
  const int state = SSL_get_error(ssl_, done);
  collect(out);  // also the alert that tells the server why
  if (done == 1) return true;
  if (state == SSL_ERROR_WANT_READ) return false;
  if (const long verdict = SSL_get_verify_result(ssl_); verdict != X509_V_OK)
    return fail(Errc::denied,
                fmt::format("certificate refused: {}", X509_verify_cert_error_string(verdict)));
  const int why = ERR_GET_REASON(ERR_peek_error());
  if (why == SSL_R_WRONG_VERSION_NUMBER || why == SSL_R_HTTP_REQUEST)
    return fail(Errc::denied, "the server does not speak TLS on this port");
  return fail(Errc::denied, "TLS handshake: " + last_reason());
}

Result<void> Tls::encrypt(std::string_view plain, std::string& out) {
  ERR_clear_error();
  std::size_t written = 0;
  if (!plain.empty() && SSL_write_ex(ssl_, plain.data(), plain.size(), &written) != 1)
    return fail(Errc::unavailable, "TLS: " + last_reason());
  collect(out);
  return {};
}

Result<bool> Tls::decrypt(std::string_view received, std::string& plain, std::string& out) {
  give(received);
  char block[16384];
  std::size_t n = 0;
  while (SSL_read_ex(ssl_, block, sizeof block, &n) == 1) plain.append(block, n);
  const int state = SSL_get_error(ssl_, 0);
  collect(out);
  if (state == SSL_ERROR_WANT_READ) return true;
  if (state == SSL_ERROR_ZERO_RETURN) return false;
  // With TLS 1.3 a server refuses our certificate only after the handshake: by one of its alerts.
  const bool alert = ERR_GET_REASON(ERR_peek_error()) >= SSL_AD_REASON_OFFSET;
  return fail(alert ? Errc::denied : Errc::unavailable, "TLS: " + last_reason());
}

}  // namespace dlock::etcd
