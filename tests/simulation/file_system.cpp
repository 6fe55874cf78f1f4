// SPDX-License-Identifier: Apache-2.0
#include "simulation/file_system.hpp"
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace dlock::simulation {

using What = Node::Kind;

Open::Open(FileSystem& of, NodePtr opened, bool reads_it, bool writes_it)
    : files(of), node(std::move(opened)), reads(reads_it), writes(writes_it) {
  if (node->kind == What::fifo && reads) ++node->readers;
}

Open::~Open() {
  if (node->locked == this) node->locked = nullptr;
  if (node->turn == this) node->turn = nullptr;
  if (node->kind != What::fifo || !reads) return;
  if (--node->readers == 0) node->unread = 0;
  if (files.stirred) files.stirred(*node);
}

FileSystem::FileSystem() : top_(add(What::directory, 0700)) {}

NodePtr FileSystem::add(What kind, mode_t mode) {
  auto node = std::make_shared<Node>(Node{kind});
  node->number = ++made_;
  node->mode = mode;
  return node;
}

NodePtr FileSystem::find(std::string_view path) const {
  if (!path.starts_with(root)) return nullptr;
  path.remove_prefix(root.size());
  NodePtr at = top_;
  while (at && !path.empty()) {
    path.remove_prefix(1);
    const auto found = at->entries.find(std::string{path.substr(0, path.find('/'))});
    at = found == at->entries.end() ? nullptr : found->second;
    path.remove_prefix(std::min(path.find('/'), path.size()));
  }
  return at;
}

NodePtr FileSystem::entry(const Open* from, std::string_view path) const {
  if (!from) return find(path);
  if (path == ".") return from->node;
  const auto found = from->node->entries.find(std::string{path});
  return found == from->node->entries.end() ? nullptr : found->second;
}

int FileSystem::open(const Open* from, std::string_view path, int flags, mode_t mode, OpenPtr& to) {
  NodePtr node = entry(from, path);
  if (node && (flags & O_EXCL)) return -EEXIST;
  if (!node && (!(flags & O_CREAT) || !from || !from->node->named)) return -ENOENT;
  if (!node) {
    if (const int failed = make(*from, path, What::regular, mode); failed != 0) return failed;
    node = entry(from, path);
  }
  const int access = flags & O_ACCMODE;
  const bool reads = access != O_WRONLY, writes = access != O_RDONLY;
  if (node->kind != What::directory && (flags & O_DIRECTORY)) return -ENOTDIR;
  if (node->kind == What::directory && writes) return -EISDIR;
  if (node->kind == What::fifo && !reads && node->readers == 0) return -ENXIO;
  to = std::make_shared<Open>(*this, std::move(node), reads, writes);
  return 0;
}

int FileSystem::make(const Open& directory, std::string_view name, What kind, mode_t mode) {
  if (!directory.node->named) return -ENOENT;
  if (entry(&directory, name)) return -EEXIST;
  if (full) return -ENOSPC;
  directory.node->entries.emplace(name, add(kind, mode));
  return 0;
}

int FileSystem::remove(const Open& directory, std::string_view name) {
  const auto found = directory.node->entries.find(std::string{name});
  if (found == directory.node->entries.end()) return -ENOENT;
  if (found->second->kind == What::directory) return -EISDIR;
  found->second->named = false;
  directory.node->entries.erase(found);
  return 0;
}

void FileSystem::status(const Node& node, struct stat& to) {
  to = {};
  to.st_dev = 0x77777;
  to.st_ino = node.number;
  to.st_mode = node.mode | (node.kind == What::directory ? S_IFDIR
                            : node.kind == What::fifo    ? S_IFIFO
                                                         : S_IFREG);
  to.st_nlink = node.named ? 1 : 0;
  to.st_uid = ::geteuid();
  to.st_gid = ::getegid();
  to.st_size = node.size;
  to.st_ctim.tv_sec = 1'800'000'000;  // in this boot
}

int FileSystem::status(const Open* from, std::string_view path, struct stat& to) const {
  const NodePtr node = entry(from, path);
  if (!node) return -ENOENT;
  status(*node, to);
  return 0;
}

int FileSystem::flock(const Open& open, int operation) {
  const Open*& owner = open.node->locked;
  if (operation & LOCK_UN) {
    if (owner == &open) owner = nullptr;
    return 0;
  }
  if (owner && owner != &open) return -EWOULDBLOCK;
  owner = &open;
  return 0;
}

int FileSystem::turn(const Open& open, short type) {
  const Open*& owner = open.node->turn;
  if (type == F_UNLCK) {
    if (owner == &open) owner = nullptr;
    return 0;
  }
  if (owner && owner != &open) return -EAGAIN;
  owner = &open;
  return 0;
}

ssize_t FileSystem::read(const Node& node, char* to, std::size_t size, off_t at) const {
  const off_t end = std::min(node.size, at + static_cast<off_t>(size));
  if (at >= end) return 0;
  std::memset(to, 0, static_cast<std::size_t>(end - at));
  for (off_t from = at; from < end;) {
    const off_t within = from % page, part = std::min(page - within, end - from);
    if (const auto found = node.pages.find(from - within); found != node.pages.end())
      std::memcpy(to + (from - at), found->second.data() + within, static_cast<std::size_t>(part));
    from += part;
  }
  return end - at;
}

ssize_t FileSystem::write(Node& node, std::string_view bytes, off_t at) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const off_t from = at + static_cast<off_t>(done), within = from % page;
    auto found = node.pages.find(from - within);
    if (found == node.pages.end() && full) break;
    if (found == node.pages.end())
      found = node.pages.emplace(from - within, std::string(page, '\0')).first;
    const std::size_t part = std::min(static_cast<std::size_t>(page - within), bytes.size() - done);
    std::memcpy(found->second.data() + within, bytes.data() + done, part);
    done += part;
    node.size = std::max(node.size, from + static_cast<off_t>(part));
  }
  return done == 0 && !bytes.empty() ? -ENOSPC : static_cast<ssize_t>(done);
}

int FileSystem::reserve(Node& node, off_t at, off_t size) {
  for (off_t from = at - at % page; from < at + size; from += page) {
    if (node.pages.contains(from)) continue;
    if (full) return -ENOSPC;
    node.pages.emplace(from, std::string(page, '\0'));
  }
  return 0;
}

ssize_t FileSystem::drain(Node& node, std::size_t most) {
  if (node.unread == 0) return -EAGAIN;
  const std::size_t n = std::min(node.unread, most);
  node.unread -= n;
  return static_cast<ssize_t>(n);
}

ssize_t FileSystem::wake(Node& node, std::size_t bytes) {
  if (node.readers == 0) return -EPIPE;
  node.unread += bytes;
  if (stirred) stirred(node);
  return static_cast<ssize_t>(bytes);
}

}  // namespace dlock::simulation
