// SPDX-License-Identifier: Apache-2.0
#include "common/net/credentials.hpp"
#include <fmt/format.h>
#include <sys/stat.h>

namespace dlock {
namespace {

std::string identity_of(const TlsOptions& files) {
  std::string text;
  for (const std::string* path : {&files.ca, &files.cert, &files.key}) {
    struct stat s {};
    if (!path->empty() && ::stat(path->c_str(), &s) == 0)
      text += fmt::format("{}:{}:{}:{}.{}:{}.{}", s.st_dev, s.st_ino, s.st_size, s.st_mtim.tv_sec,
                          s.st_mtim.tv_nsec, s.st_ctim.tv_sec, s.st_ctim.tv_nsec);
    text += ' ';
  }
  return text;
}

}  // namespace

Result<void> Credentials::load() {
  if (!options_.tls) return {};
  // take the identity before the files are read, so that no change is missed
  std::string files = identity_of(*options_.tls);
  TRY(made, TlsContext::create(*options_.tls));
  tls_ = std::move(made);
  tls_files_ = std::move(files);
  return {};
}

bool Credentials::newer_than(unsigned version) {
  if (options_.read_password_again()) ++version_;
  if (options_.tls && identity_of(*options_.tls) != tls_files_ && load()) ++version_;
  return version_ != version;
}

}  // namespace dlock
