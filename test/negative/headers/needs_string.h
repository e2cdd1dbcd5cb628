#pragma once
inline std::string not_self_contained();
