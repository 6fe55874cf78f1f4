// SPDX-License-Identifier: Apache-2.0
// The disk of a machine: directories, sparse files with flock(2) and one lock of fcntl(2), FIFOs.
// What a system call finds and does there; errors as -errno.
#pragma once
#include <sys/stat.h>
#include <sys/types.h>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dlock::simulation {

struct Open;

struct Node {
  enum class Kind { directory, regular, fifo } kind;
  ino_t number = 0;
  mode_t mode = 0;
  bool named = true;
  std::map<std::string, std::shared_ptr<Node>> entries{};  // of a directory
  // of a file: those of its pages that have space on the disk
  std::map<off_t, std::string> pages{};
  off_t size = 0;
  const Open* locked = nullptr;  // by flock(2)
  const Open* turn = nullptr;    // by fcntl(2), whatever the bytes
  // of a FIFO
  unsigned readers = 0;
  std::size_t unread = 0;
};
using NodePtr = std::shared_ptr<Node>;

class FileSystem;

// An open file description: ends with the last descriptor of it.
struct Open {
  Open(FileSystem& of, NodePtr opened, bool reads_it, bool writes_it);
  ~Open();
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  FileSystem& files;
  const NodePtr node;
  const bool reads, writes;
};
using OpenPtr = std::shared_ptr<Open>;

class FileSystem {
 public:
  static constexpr std::string_view root = "/locks";  // exists

  FileSystem();

  // `from`: nullptr for an absolute path. Beside it a path is one name.
  int open(const Open* from, std::string_view path, int flags, mode_t mode, OpenPtr& to);
  int make(const Open& directory, std::string_view name, Node::Kind kind, mode_t mode);
  int remove(const Open& directory, std::string_view name);
  int status(const Open* from, std::string_view path, struct stat& to) const;
  static void status(const Node&, struct stat& to);
  int flock(const Open&, int operation);
  int turn(const Open&, short type);
  ssize_t read(const Node&, char* to, std::size_t size, off_t at) const;
  ssize_t write(Node&, std::string_view bytes, off_t at);
  int reserve(Node&, off_t at, off_t size);
  ssize_t drain(Node&, std::size_t most);  // reads from a FIFO
  ssize_t wake(Node&, std::size_t bytes);  // writes to it

  NodePtr find(std::string_view path) const;
  bool full = false;  // nothing that needs new space can be written

  std::function<void(const Node&)> stirred;  // a FIFO, so that poll(2) may see it otherwise
  std::function<void(Node&)> written;        // a write has ended

 private:
  static constexpr off_t page = 4096;
  NodePtr entry(const Open* from, std::string_view path) const;
  NodePtr add(Node::Kind kind, mode_t mode);

  ino_t made_ = 0;
  NodePtr top_;
};

}  // namespace dlock::simulation
